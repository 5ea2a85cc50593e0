"""MIG instances as the ledger counts them: by a number for each profile, above that of any GPU.

Instances of one profile on one node are a stock like the slices of a GPU. So a profile has a number where a
GPU has its index: it follows from the profile's name, and is the same everywhere, for unknown cards too.
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
"""Of a card's memory, in which quotas count."""
_MIB_PER_GIB = 1024
_MAX_GB = 10_000
_MAX_NAME = 16
"""Characters, more than any profile has that is counted."""
_NAME = re.compile(r"([1-9])g\.([1-9][0-9]{0,3})gb(\.me)?", re.ASCII)
_UNKNOWN_EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4}
"""Of profiles that no known card has, by their compute slices; others are whole cards."""


def instance_number(resource: str) -> int | None:
    """Return the number of a profile by its resource name; None for names of anything else."""
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
    """Whether a node's cards are divided for the pods that wait, by its labels."""
    return any(labels.get(name) == "mig" for name in PARTITIONING_LABELS)


def is_instance(index: int) -> bool:
    """Whether a number is that of a profile, and not the index of a GPU."""
    return index >= FIRST_NUMBER


def profile_name(number: int) -> str:
    """Return the profile with that number as resource names have it, such as "1g.10gb" or "1g.10gb.me"."""
    name, has_media = divmod(number - FIRST_NUMBER, 2)
    compute, gigabytes = divmod(name, _MAX_GB)
    return f"{compute}g.{gigabytes}gb{'.me' if has_media else ''}"


def gpu_name(index: int) -> str:
    """Return what people call a GPU by its index, or MIG instances by the number of their profile."""
    return profile_name(index) if is_instance(index) else str(index)


def instance_resource(number: int) -> str:
    """Return the extended resource of the profile with that number."""
    return MIG_RESOURCE_PREFIX + profile_name(number)


def profile_of_product(label: str) -> int | None:
    """Return the number of the one profile of a node of strategy `single`; None for any other node.

    GPU feature discovery ends the label nvidia.com/gpu.product in "-MIG-1g.10gb" there.
    """
    _, found, name = label.partition("-MIG-")
    return _number(name[:_MAX_NAME]) if found else None


@lru_cache(maxsize=512)
def instance_eighths(number: int, product: str) -> int:
    """Return how many eighths of its card an instance is worth; on an unknown card the most it can be."""
    sizes = [-(-profile.memory * EIGHTHS // memory) for profile, memory in _profiles(number, product)]
    compute = (number - FIRST_NUMBER) // 2 // _MAX_GB
    return max(sizes, default=_UNKNOWN_EIGHTHS.get(compute, EIGHTHS))


@lru_cache(maxsize=512)
def instance_mib(number: int, product: str) -> int:
    """Return the MiB of an instance; on an unknown card the most it can have."""
    gigabytes = (number - FIRST_NUMBER) // 2 % _MAX_GB
    found = [profile.mib for profile, _ in _profiles(number, product)]
    return max(found, default=gigabytes * _MIB_PER_GIB)


def _profiles(number: int, product: str) -> list[tuple[MigProfile, int]]:
    """Return the profile with the memory slices of its card: of the product's card, else of all cards."""
    card, resource = card_of_product(product), instance_resource(number)
    cards = CARDS if card is None else (card,)
    found = [(each.profile(resource), each.memory) for each in cards]
    return [(profile, memory) for profile, memory in found if profile is not None]
