"""Mode mig: a share is one MIG instance, the smallest offered by nodes that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kube.names import GPU_RESOURCE
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_names import STANDARD_INDEX
from modes.instance import Instance
from modes.mig_profiles import MIG_RESOURCE_PREFIX, MigCard, MigProfile, is_divided_on_demand
from modes.mode import GpuCount, Mode, ModeName, Offer
from modes.resource_kinds import ResourceKinds
from modes.units import (
    EIGHTHS,
    POOL,
    Profile,
    Unit,
    profile_of_number,
    profile_of_product,
    profile_of_resource,
)

_Offered = Mapping[tuple[Unit, Profile], MigProfile]
"""What nodes offer: an element of `Mode.resource_units` and its profile; and this profile on their card."""
_SizeKey = tuple[Profile, bool, int, bool]
"""Profile, whether the resource is the pool, eighths, whether more than half would be idle."""


@dataclass(frozen=True)
class Mig(Mode):
    """The placement chooses a profile, the kubelet chooses an instance, and hardware enforces the share."""

    name: ClassVar[ModeName] = "mig"
    default_resource: ClassVar[str] = MIG_RESOURCE_PREFIX + "{profile}"
    prices_node_classes: ClassVar[bool] = False
    unknown_placeholders: ClassVar[frozenset[str]] = frozenset({"index", "memory_mib"})
    several_gpus_problem: ClassVar[str | None] = "a MIG instance is on one card: request a share of one GPU"
    several_containers_problem: ClassVar[str | None] = "a MIG instance is for one container: remove it"
    counts_slices: ClassVar[bool] = False
    gives_instances: ClassVar[bool] = True
    needs_limiter: ClassVar[bool] = False
    unsupported: ClassVar[Mapping[str, str]] = {
        **Mode.unsupported,
        "slicesPerGpu": "MIG memory is counted in eighths: leave it out",
        "assume": "does not state the model of the cards, which decides the profile: leave it out",
        "limits.from": "a MIG instance is its own limit: leave it out",
        "containers": "a MIG instance goes to one container: leave it out",
        "compute": "a MIG instance has its own compute: leave it out",
        "memory.reserveMiB": "a MIG instance needs no reserve: leave it out",
    }

    @cached_property
    def kinds(self) -> ResourceKinds:
        """Names of instances are requests for them; names of single GPUs are known only to be denied."""
        return ResourceKinds(STANDARD_INDEX, None, self.counted, self.allowed, MIG_RESOURCE_PREFIX)

    def amounts(self, fraction: Fraction, indices: tuple[int, ...]) -> dict[str, str]:  # noqa: ARG002 always one
        """Return one instance of the chosen profile; without a profile, of the node's pool of instances."""
        return {profile_of_number(indices[0]).resource if indices else GPU_RESOURCE: "1"}

    def share_text(self, fraction: Fraction) -> str:
        """Return the minimum that an instance must hold."""
        if fraction.is_of_memory:
            return f"{fraction.mib} MiB, on the smallest MIG instance that holds them"
        least = f"{fraction.slices} of {fraction.slices_per_gpu} slices of its card"
        return f"the smallest MIG instance of at least {least}"

    @classmethod
    def name_problem(cls, resource: str) -> str | None:
        """Return a problem for every other name: NVIDIA's device plugin names these resources."""
        if resource == cls.default_resource:
            return None
        return "is not for mode mig, in which NVIDIA's device plugin sets the names: leave it out"

    @classmethod
    def gpu_count(cls, node: NodeFact) -> GpuCount | None:
        """Count the instances of a node; at least one if instances may be created soon."""
        units = cls.resource_units(node)
        found = node.pooled if units == (POOL,) else sum([count for _, count in node.instances])
        return (max(1, found), 0) if units else None

    @classmethod
    def resource_units(cls, node: NodeFact) -> tuple[Unit, ...]:
        """Return the profiles of the instances that a node offers, or the pool if they have its name.

        A node whose cards are divided on demand offers every profile of its card.
        """
        if profile_of_product(node.product) is not None:
            return (POOL,)
        found = {profile_of_number(number) for number, _ in node.instances}
        if is_divided_on_demand(node.labels):
            card = node.mig_card
            resources = [profile.resource for profile in card.profiles] if card is not None else []
            found.update(filter(None, map(profile_of_resource, resources)))
        return tuple(sorted(found))

    @staticmethod
    def instances(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> list[Instance]:
        """Return the smallest instance that holds a share on each kind of node, the best first.

        Args:
            fraction: the requested share.
            offers: models of nodes, their cards, and the profiles that such nodes offer.
            resource: the extended resource that the pod itself requests, the only choice; empty for none.
        """
        found: dict[_SizeKey, dict[str, int]] = {}
        for product, card, resource_units in offers:
            profiles = dict(_profiles((product, card, resource_units), resource))
            if card is None:
                continue
            best = smallest_profile(card, profiles.values(), fraction, takes_media=bool(resource))
            if best is None:
                continue
            unit, profile = next(key for key, known in profiles.items() if known is best[0])
            eighths = -(-best[0].memory * EIGHTHS // card.memory)
            of_models = found.setdefault((profile, unit is POOL, eighths, best[1]), {})
            of_models[product] = min(best[0].mib, of_models.get(product, best[0].mib))
        made = [
            Instance(profile.number, eighths, min(mib.values()), tuple(sorted(mib)), is_pool, is_more)
            for (profile, is_pool, eighths, is_more), mib in found.items()
        ]
        return sorted(made, key=_rank)

    @staticmethod
    def none_holds(fraction: Fraction, offers: Iterable[Offer], resource: str = "") -> str:
        """Return why no instance holds a share, as a clause that says what to do."""
        if resource and profile_of_resource(resource) is None:
            return f"{resource} is not a known MIG profile: use another, or leave the resource out"
        known = {
            (profile.mib, profile.name) for offer in offers for profile in dict(_profiles(offer, "")).values()
        }
        if not known:
            return (
                "no node offers MIG instances of a known card: ask the admin to divide some"
                " (docs/operating/mig.md)"
            )
        largest = max(known)
        if resource:
            return f"no {resource} that nodes offer holds it: request less, or leave the resource out"
        share, one = fraction.ratio
        asked = f"{fraction.gpus} GPUs" if fraction.gpus > 1 else f"{share}/{one} of a GPU"
        asked = f"{fraction.mib} MiB" if fraction.is_of_memory else asked
        return f"no MIG instance holds {asked}, the largest is {largest[1]} of {largest[0]} MiB: request less"


def _rank(each: Instance) -> tuple[bool, int, int, int, bool]:
    """Sort key, the best first; no two instances have the same key."""
    return each.is_more_than_twice, each.eighths, each.mib, each.number, each.is_pool


def _profiles(offer: Offer, resource: str) -> Iterator[tuple[tuple[Unit, Profile], MigProfile]]:
    """Yield what a node offers, as in `_Offered`; only that of `resource`, if it is not empty."""
    product, card, resource_units = offer
    single = profile_of_product(product)
    for unit in resource_units:
        profile = single if unit is POOL else unit
        if card is None or not isinstance(profile, Profile) or (unit is POOL) != (single is not None):
            continue
        name = GPU_RESOURCE if unit is POOL else profile.resource
        known = card.profile(profile.resource)
        if known is not None and resource in {"", name}:
            yield (unit, profile), known


def smallest_profile(
    card: MigCard, profiles: Iterable[MigProfile], fraction: Fraction, *, takes_media: bool = False
) -> tuple[MigProfile, bool] | None:
    """Return the smallest of the profiles that holds a share, and whether more than half would be idle.

    An eighth of a card is one of its eight memory slices, although the driver keeps a little of each. None
    if no profile is large enough, and for more than one GPU: an instance is on one card. Pods get media
    engines only if they request them by name (`takes_media`).
    """
    asked = fraction.mib or fraction.slices * card.memory
    given = {
        profile: profile.mib if fraction.is_of_memory else profile.memory * fraction.slices_per_gpu
        for profile in profiles
        if takes_media or not profile.has_media_extensions
    }
    enough = [profile for profile in given if given[profile] >= asked]
    if not enough or fraction.gpus > 1:
        return None
    smallest = min(enough, key=lambda each: (each.memory, each.compute, each.name))
    return smallest, given[smallest] > 2 * asked
