"""What quotas count for the MIG instances of a pod: eighths of the card, and MiB."""

from __future__ import annotations

import msgspec

from modes.facts import NodeFact, PodFact
from modes.mig_profiles import MigCard, card_of_product
from modes.units import POOL, Gpu, Profile, Unit, profile_of_product


def with_instance_worth(pod: PodFact, node: NodeFact | None) -> PodFact:
    """Return the pod with what its instances are worth on its node, or may be worth at most."""
    more = 0
    for unit, count in pod.takes:
        if isinstance(unit, Gpu):
            continue
        profile = profile_on(unit, pod, node)
        if profile is not None:
            more += count * (max([profile.eighths(card) for card in _cards(pod, node)]) - 1)
    return pod if more == pod.more_eighths else msgspec.structs.replace(pod, more_eighths=more)


def mib_of_instance(pod: PodFact, node: NodeFact | None, profile: Profile) -> int:
    """Return the MiB of an instance of a profile that a pod holds."""
    return max([profile.mib(card) for card in _cards(pod, node)])


def profile_on(unit: Unit, pod: PodFact, node: NodeFact | None) -> Profile | None:
    """Return the MIG profile of a unit, also behind a pool under strategy `single`; None for slices."""
    if unit is not POOL:
        return unit if isinstance(unit, Profile) else None
    products = (node.product,) if node is not None else pod.products
    found = [profile_of_product(product) for product in products]
    return next((profile for profile in found if profile is not None), None)


def has_instances(pod: PodFact) -> bool:
    """Whether a pod requests MIG instances, as far as its own fields say."""
    return any(profile_on(unit, pod, None) is not None for unit, _ in pod.takes)


def _cards(pod: PodFact, node: NodeFact | None) -> list[MigCard | None]:
    """Return the cards that a pod has or may get; None for unknown ones."""
    return [node.mig_card] if node is not None else [card_of_product(each) for each in pod.products or ("",)]
