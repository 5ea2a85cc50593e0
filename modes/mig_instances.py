"""MIG instances as the ledger counts them: each profile has a number, larger than any GPU index.

The ledger counts instances of one profile on a node like slices of a GPU. A profile therefore has a number
where a GPU has its index. It follows from the profile's name, so it is the same everywhere, also for unknown
cards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from kube.names import MAX_GPU_INDEX_DIGITS, PARTITIONING_LABELS
from modes.mig_profiles import CARDS, MIG_RESOURCE_PREFIX, MigProfile, card_of_product

FIRST_NUMBER: int = 10**MAX_GPU_INDEX_DIGITS
"""No GPU has such an index."""
EIGHTHS = 8
"""Quotas count in eighths of a card's memory."""
_MIB_PER_GIB = 1024
_MAX_GB = 10_000
_MAX_NAME = 16
"""Maximum length of a profile's name; no profile that is counted has a longer one."""
_NAME = re.compile(r"([1-9])g\.([1-9][0-9]{0,3})gb(\.me)?", re.ASCII)
_UNKNOWN_EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4}
"""Eighths of profiles that no known card has, by their compute slices; others count as whole cards."""


def instance_number(resource: str) -> int | None:
    """Return the number of a profile by its resource name; None for names of other resources."""
    if not resource.startswith(MIG_RESOURCE_PREFIX):
        return None
    return _number(resource[len(MIG_RESOURCE_PREFIX) :][:_MAX_NAME])


@lru_cache(maxsize=512)
def _number(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return FIRST_NUMBER + 2 * (int(match[1]) * _MAX_GB + int(match[2])) + (match[3] is not None)


def is_divided_on_demand(labels: Mapping[str, str]) -> bool:
    """Whether a node's cards are divided on demand for waiting pods, by the node's labels."""
    return any(labels.get(name) == "mig" for name in PARTITIONING_LABELS)


def is_instance(index: int) -> bool:
    """Whether a number belongs to a profile, and is not the index of a GPU."""
    return index >= FIRST_NUMBER


def profile_name(number: int) -> str:
    """Return the profile with that number, as in resource names: "1g.10gb" or "1g.10gb.me"."""
    name, has_media = divmod(number - FIRST_NUMBER, 2)
    compute, gigabytes = divmod(name, _MAX_GB)
    return f"{compute}g.{gigabytes}gb{'.me' if has_media else ''}"


def gpu_name(index: int) -> str:
    """Return the name to show for a GPU index, or for the number of a profile."""
    return profile_name(index) if is_instance(index) else str(index)


def instance_resource(number: int) -> str:
    """Return the extended resource of the profile with that number."""
    return MIG_RESOURCE_PREFIX + profile_name(number)


def profile_of_product(label: str) -> int | None:
    """Return the number of the single profile of a node with strategy `single`; None for any other node.

    GPU feature discovery ends the label nvidia.com/gpu.product of such nodes with "-MIG-1g.10gb".
    """
    _, found, name = label.partition("-MIG-")
    return _number(name[:_MAX_NAME]) if found else None


@lru_cache(maxsize=512)
def instance_eighths(number: int, product: str) -> int:
    """Return how many eighths of its card an instance counts for; on an unknown card, the maximum."""
    sizes = [-(-profile.memory * EIGHTHS // memory) for profile, memory in _profiles(number, product)]
    compute = (number - FIRST_NUMBER) // 2 // _MAX_GB
    return max(sizes, default=_UNKNOWN_EIGHTHS.get(compute, EIGHTHS))


@lru_cache(maxsize=512)
def instance_mib(number: int, product: str) -> int:
    """Return the MiB of an instance; on an unknown card, the maximum."""
    gigabytes = (number - FIRST_NUMBER) // 2 % _MAX_GB
    found = [profile.mib for profile, _ in _profiles(number, product)]
    return max(found, default=gigabytes * _MIB_PER_GIB)


def _profiles(number: int, product: str) -> list[tuple[MigProfile, int]]:
    """Return the profile with its card's memory slices, of the product's card or else of all cards."""
    card, resource = card_of_product(product), instance_resource(number)
    cards = CARDS if card is None else (card,)
    found = [(each.profile(resource), each.memory) for each in cards]
    return [(profile, memory) for profile, memory in found if profile is not None]
