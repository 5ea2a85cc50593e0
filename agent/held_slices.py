"""Counts the slices of each GPU that the kubelet has allocated. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from agent.gpu import Gpu
from agent.kubelet import Holder
from agent.shares import uuid_of
from agent.state import Held


def held_of(holders: Iterable[Holder], gpus: Iterable[Gpu]) -> Mapping[str, Held]:
    """Return the slices that containers hold of each of these GPUs, by UUID; 0 for unused GPUs."""
    ids: dict[str, set[str]] = {gpu.uuid: set() for gpu in gpus}
    pods: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for holder in holders:
        for each in holder.ids:
            if (uuid := uuid_of(each)) in ids:
                ids[uuid].add(each)
                pods[uuid].add((holder.namespace, holder.pod))
    return {uuid: Held(len(found), len(pods[uuid])) for uuid, found in ids.items()}
