"""The kubelet's checkpoint of allocated devices, next to its sockets.

It has two things that pod-resources lacks: the devices of init containers, and the answers to Allocate, which
state the slices per GPU. The file is internal to the kubelet (this is the format of Kubernetes 1.20 to 1.37),
so an unreadable file counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from agent.files import UNREADABLE
from agent.kubelet_api.deviceplugin_pb2 import ContainerAllocateResponse
from modes.fraction import ALLOWED_SLICES_PER_GPU

NAME = "kubelet_internal_checkpoint"
SLICES_PER_GPU = "clearml-injector.io/slices-per-gpu"
"""Annotation of each of our answers: the kubelet stores it with the allocation, and runtimes ignore it."""
_SIZES = {str(size): size for size in ALLOWED_SLICES_PER_GPU}


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one resource that a container got."""

    pod: str
    """UID."""
    container: str
    resource: str
    ids: frozenset[str]
    slices_per_gpu: int | None
    """Of the policy at that time; None if the answer does not state it."""


class _Entry(msgspec.Struct):
    pod: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    ids: dict[str, list[str] | None] | None = msgspec.field(default=None, name="DeviceIDs")
    answer: bytes | None = msgspec.field(default=None, name="AllocResp")


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(default=None, name="PodDeviceEntries")


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


def allocations_in(plugins: Path) -> tuple[Allocation, ...]:
    """Return all allocations in the file of this folder; none if it cannot be read. It blocks."""
    try:
        return tuple(_read(plugins / NAME))
    except UNREADABLE:
        return ()


def divisions_of(allocations: Iterable[Allocation]) -> Mapping[frozenset[str], int]:
    """Return the slices per GPU at the time of the allocation, by device IDs, where the answer states it."""
    return {each.ids: each.slices_per_gpu for each in allocations if each.slices_per_gpu is not None}


def _read(path: Path) -> Iterator[Allocation]:
    for entry in msgspec.json.decode(path.read_bytes(), type=_File).data.entries or ():
        ids = frozenset(each for of_node in (entry.ids or {}).values() for each in of_node or ())
        size = _slices_per_gpu(entry.answer or b"")
        yield Allocation(entry.pod, entry.container, entry.resource, ids, size)


def _slices_per_gpu(answer: bytes) -> int | None:
    try:
        given = ContainerAllocateResponse.FromString(answer)
    except DecodeError:
        return None
    return _SIZES.get(given.annotations.get(SLICES_PER_GPU, ""))
