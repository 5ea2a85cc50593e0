"""What a share takes of a node: slices of a GPU, MIG instances of a profile, or slices of the node's pool.

The ledger counts what nodes offer and what pods take by these units. JSON names a GPU by its index, a profile
by a number that is larger than any index, and the pool by null: all releases read and write these. Only here
is one made from the other.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from kube.names import MAX_GPU_INDEX_DIGITS
from modes.mig_profiles import CARDS, MIG_RESOURCE_PREFIX, MigCard, MigProfile

EIGHTHS = 8
"""Quotas count in eighths of a card's memory."""
_FIRST_NUMBER: int = 10**MAX_GPU_INDEX_DIGITS
"""No GPU has such an index."""
_MIB_PER_GIB = 1024
_MAX_GB = 10_000
_MAX_NAME = 16
"""Maximum length of a profile's name; no profile that is counted has a longer one."""
_NAME = re.compile(r"([1-9])g\.([1-9][0-9]{0,3})gb(\.me)?", re.ASCII)
_UNKNOWN_EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4}
"""Eighths of profiles that no known card has, by their compute slices; others count as whole cards."""


class Profile(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """MIG instances of one profile, also of an unknown card's."""

    compute: int
    """Compute slices in the name: 1 in "1g.10gb"."""
    gigabytes: int
    has_media: bool = False

    @property
    def name(self) -> str:
        """Name as in resource names: "1g.10gb" or "1g.10gb.me"."""
        return f"{self.compute}g.{self.gigabytes}gb{'.me' if self.has_media else ''}"

    @property
    def resource(self) -> str:
        """Extended resource of its instances."""
        return MIG_RESOURCE_PREFIX + self.name

    @property
    def number(self) -> int:
        """Its number in JSON, which follows from its name."""
        return _FIRST_NUMBER + 2 * (self.compute * _MAX_GB + self.gigabytes) + self.has_media

    def eighths(self, card: MigCard | None) -> int:
        """Return how many eighths of its card an instance counts for; on an unknown card, the maximum."""
        return _sizes(self, card)[0]

    def mib(self, card: MigCard | None) -> int:
        """Return the MiB of an instance; on an unknown card, the maximum."""
        return _sizes(self, card)[1]


class Pool(msgspec.Struct, frozen=True, gc=False):
    """Everything that a node offers under one name; the kubelet chooses the GPUs, or the MIG instances."""


POOL = Pool()
Gpu = int
"""Slices of one GPU, by its index. A plain number, because placement counts millions of them."""
Unit = Gpu | Profile | Pool
Amounts = tuple[tuple[Unit, int], ...]
"""Slices, or MIG instances, of each unit, in `unit_order`."""


def unit_of(index: int | None) -> Unit:
    """Return the unit that JSON names so; the inverse of `index_of`."""
    if index is None:
        return POOL
    return index if index < _FIRST_NUMBER else profile_of_number(index)


def index_of(unit: Unit) -> int | None:
    """Return what JSON names a unit by: an index, the number of a profile, or None for the pool."""
    if isinstance(unit, Gpu):
        return unit
    return unit.number if isinstance(unit, Profile) else None


def unit_name(unit: Unit) -> str:
    """Return the name for users: an index, a profile such as "1g.10gb", or "pool"."""
    if isinstance(unit, Gpu):
        return str(unit)
    return unit.name if isinstance(unit, Profile) else "pool"


def unit_order(unit: Unit) -> tuple[bool, int]:
    """Sort key: GPUs by index, then profiles, then the pool."""
    index = index_of(unit)
    return index is None, index or 0


def profile_of_resource(resource: str) -> Profile | None:
    """Return the profile with that extended resource; None for names of other resources."""
    if not resource.startswith(MIG_RESOURCE_PREFIX):
        return None
    return _profile_of_name(resource[len(MIG_RESOURCE_PREFIX) :][:_MAX_NAME])


def profile_of_product(label: str) -> Profile | None:
    """Return the single profile of a node with strategy `single`; None for any other node.

    GPU feature discovery ends the label nvidia.com/gpu.product of such nodes with "-MIG-1g.10gb".
    """
    _, found, name = label.partition("-MIG-")
    return _profile_of_name(name[:_MAX_NAME]) if found else None


@lru_cache(maxsize=512)
def _profile_of_name(name: str) -> Profile | None:
    match = _NAME.fullmatch(name)
    return Profile(int(match[1]), int(match[2]), match[3] is not None) if match is not None else None


@lru_cache(maxsize=512)
def profile_of_number(number: int) -> Profile:
    """Return the profile with that number."""
    name, has_media = divmod(number - _FIRST_NUMBER, 2)
    compute, gigabytes = divmod(name, _MAX_GB)
    return Profile(compute, gigabytes, bool(has_media))


@lru_cache(maxsize=512)
def _sizes(profile: Profile, card: MigCard | None) -> tuple[int, int]:
    """Return eighths and MiB of an instance, the most on any known card if its own is unknown."""
    found: list[tuple[MigProfile, int]] = []
    for each in CARDS if card is None else (card,):
        known = each.profile(profile.resource)
        if known is not None:
            found.append((known, each.memory))
    return (
        max(
            [-(-known.memory * EIGHTHS // memory) for known, memory in found],
            default=_UNKNOWN_EIGHTHS.get(profile.compute, EIGHTHS),
        ),
        max([known.mib for known, _ in found], default=profile.gigabytes * _MIB_PER_GIB),
    )
