"""MIG profiles of NVIDIA's cards: what an instance of each provides, and where it can be on the card.

Names, slices and numbers of instances come from the tables in "Supported MIG Profiles" of NVIDIA's
Multi-Instance GPU user guide, r610. Starts are what `nvidia-smi mig -lgipp` prints, which the guide shows
under "Creating GPU Instances". The MiB of a profile differ a little between drivers. The values here are
the lowest seen in `nvidia-smi mig -lgip`; for 3g, 4g and 7g of B200, GB200 and GH200 144GB, and for 2g and
4g of RTX PRO 6000, they are twice the next smaller profile's. Names for GB200 are those of mig-parted's
issue 227, for GH200 144GB of its pull request 139; H20 and H100 96GB are one kind in its default
configuration. Profiles for graphics (`+gfx`), with all media engines at once (`+me.all`) and with none
(`-me`) are left out.

The node agent reports the profiles of cards in MIG mode, as their driver states them. These count before the
ones here, so cards that are not listed work too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kube.names import NVIDIA_DOMAIN, PARTITIONING_LABELS

MIG_RESOURCE_PREFIX = NVIDIA_DOMAIN + "mig-"
"""Prefix of the resource name of a profile's instances, with the device plugin's strategy `mixed`."""
_MEDIA = "+me"
_MAX_SLICES = 8
"""Of compute or memory, that a card has."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of instance that a card can be divided into."""

    name: str
    """As in `nvidia-smi` and mig-parted, such as "1g.10gb" or "1g.10gb+me"."""
    compute: int
    """Compute slices of an instance."""
    memory: int
    """Memory slices of an instance: how many places it occupies on the card."""
    mib: int
    """Minimum MiB of memory that a process finds on an instance."""
    starts: tuple[int, ...]
    """Memory slices at which an instance can begin."""
    most: int
    """Maximum number of its instances on one card."""

    @property
    def resource(self) -> str:
        """Extended resource of its instances; resource names cannot contain a plus sign."""
        return MIG_RESOURCE_PREFIX + self.name.replace("+", ".")

    @property
    def has_media_extensions(self) -> bool:
        """Whether it has the card's media engines, which only one instance can have."""
        return self.name.endswith(_MEDIA)


@dataclass(frozen=True, slots=True)
class MigCard:
    """A model of GPU that can be divided."""

    name: str
    compute: int
    """Compute slices of the card."""
    memory: int
    """Memory slices of the card."""
    profiles: tuple[MigProfile, ...]
    """From the smallest to the largest: by memory, then by compute."""

    def profile(self, name: str) -> MigProfile | None:
        """Return the profile with that name or resource name; None if the card has no such profile."""
        return next((each for each in self.profiles if name in (each.name, each.resource)), None)


def _of_eight(name: str, gigabytes: tuple[int, int, int, int], mib: tuple[int, int, int, int]) -> MigCard:
    """Return a card of seven compute and eight memory slices; tuples are for 1, 2, 4 and 8 memory slices."""
    one, two, four, all_ = zip(gigabytes, mib, strict=True)
    return MigCard(
        name,
        compute=7,
        memory=8,
        profiles=(
            MigProfile(f"1g.{one[0]}gb", 1, 1, one[1], (0, 1, 2, 3, 4, 5, 6), 7),
            MigProfile(f"1g.{one[0]}gb{_MEDIA}", 1, 1, one[1], (0, 1, 2, 3, 4, 5, 6), 1),
            MigProfile(f"1g.{two[0]}gb", 1, 2, two[1], (0, 2, 4, 6), 4),
            MigProfile(f"2g.{two[0]}gb", 2, 2, two[1], (0, 2, 4), 3),
            MigProfile(f"3g.{four[0]}gb", 3, 4, four[1], (0, 4), 2),
            MigProfile(f"4g.{four[0]}gb", 4, 4, four[1], (0,), 1),
            MigProfile(f"7g.{all_[0]}gb", 7, 8, all_[1], (0,), 1),
        ),
    )


A30 = MigCard(
    "A30",
    compute=4,
    memory=4,
    profiles=(
        MigProfile("1g.6gb", 1, 1, 5836, (0, 1, 2, 3), 4),
        MigProfile("1g.6gb+me", 1, 1, 5836, (0, 1, 2, 3), 1),
        MigProfile("2g.12gb", 2, 2, 11672, (0, 2), 2),
        MigProfile("2g.12gb+me", 2, 2, 11672, (0, 2), 1),
        MigProfile("4g.24gb", 4, 4, 23344, (0,), 1),
    ),
)
A100_40GB = _of_eight("A100 40GB", (5, 10, 20, 40), (4864, 9856, 19968, 40192))
A100_80GB = _of_eight("A100 80GB", (10, 20, 40, 80), (9728, 19968, 40192, 80384))
H100_80GB = _of_eight("H100 80GB", (10, 20, 40, 80), (9856, 19968, 40192, 80384))
H100_94GB = _of_eight("H100 94GB", (12, 24, 47, 94), (10880, 22016, 47232, 94848))
H100_96GB = _of_eight("H100 96GB", (12, 24, 48, 96), (11264, 23552, 47616, 95232))
H200 = _of_eight("H200", (18, 35, 71, 141), (16384, 33024, 71168, 143360))
B200 = _of_eight("B200", (23, 45, 90, 180), (20992, 45312, 90624, 181248))
GH200_144GB = _of_eight("GH200 144GB", (18, 36, 72, 144), (17920, 36096, 72192, 144384))
GB200 = _of_eight("GB200", (23, 47, 93, 186), (22528, 46592, 93184, 186368))
RTX_PRO_6000 = MigCard(
    "RTX PRO 6000",
    compute=4,
    memory=4,
    profiles=(
        MigProfile("1g.24gb", 1, 1, 23680, (0, 1, 2, 3), 4),
        MigProfile("1g.24gb+me", 1, 1, 23680, (0, 1, 2, 3), 1),
        MigProfile("2g.48gb", 2, 2, 47360, (0, 2), 2),
        MigProfile("4g.96gb", 4, 4, 94720, (0,), 1),
    ),
)

_PRODUCTS_OF = {
    A30: "A30",
    A100_40GB: "A100-PCIE-40GB A100-SXM4-40GB A800-40GB-Active",
    A100_80GB: "A100-80GB-PCIe A100-PCIE-80GB A100-SXM4-80GB A800-80GB-PCIe A800-SXM4-80GB",
    H100_80GB: "H100-80GB-HBM2e H100-80GB-HBM3 H100-PCIe H800 H800-PCIe",
    H100_94GB: "H100-NVL H100-SXM5-94GB H800-NVL",
    H100_96GB: "GH200-480GB H100-SXM5-96GB H100-96GB-HBM3 H20",
    H200: "H200 H200-NVL",
    B200: "B200",
    GH200_144GB: "GH200-144G-HBM3e",
    GB200: "GB200",
    RTX_PRO_6000: "RTX-PRO-6000-Blackwell-Server-Edition RTX-PRO-6000-Blackwell-Workstation-Edition"
    " RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
}
"""Products as GPU feature discovery writes them, without the vendor's name and the suffix for sharing."""
CARDS = tuple(_PRODUCTS_OF)
_CARD_OF = {product: card for card, products in _PRODUCTS_OF.items() for product in products.split()}


def name_of(compute: int, mib: int, card_mib: int, *, has_media: bool) -> str:
    """Return the name of a profile of a card, as NVIDIA's go-nvlib makes it: its GB are whole eighths."""
    twice = 2 * -(-mib * 8 // card_mib) * -(-card_mib // 1024)
    return f"{compute}g.{(twice + 8) // 16}gb{_MEDIA if has_media else ''}"


def card_of_profiles(name: str, profiles: Iterable[MigProfile]) -> MigCard | None:
    """Return the card with these profiles, as its driver states them; None if no card can have them.

    A card's profiles differ in their sizes.
    """
    ordered = tuple(sorted(profiles, key=lambda each: (each.memory, each.compute, each.name)))
    sizes = {(each.compute, each.memory, each.has_media_extensions) for each in ordered}
    compute = max([each.compute for each in ordered], default=0)
    memory = max([start + each.memory for each in ordered for start in each.starts], default=0)
    smallest = min([min(each.compute, each.memory) for each in ordered], default=0)
    if len(sizes) < len(ordered) or smallest < 1 or max(compute, memory) > _MAX_SLICES:
        return None
    return MigCard(name, compute, memory, ordered)


def card_of_product(label: str) -> MigCard | None:
    """Return the card that the node label nvidia.com/gpu.product names; None if it is unknown.

    If GPUs are shared or divided, the label ends with "-SHARED", or with "-MIG-" and a profile.
    """
    product = label.removesuffix("-SHARED").partition("-MIG-")[0]
    return _CARD_OF.get(product.removeprefix("NVIDIA-"))


def is_divided_on_demand(labels: Mapping[str, str]) -> bool:
    """Whether a node's cards are divided on demand for waiting pods, by the node's labels."""
    return any(labels.get(name) == "mig" for name in PARTITIONING_LABELS)
