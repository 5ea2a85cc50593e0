"""The kubelet's own file of what it allocated, beside its sockets.

It tells two things that pod-resources does not: what init containers hold, and what was answered when slices
were given, and with that of how many slices their GPU was. The file is the kubelet's business (its form is
that of Kubernetes 1.20 to 1.37): what cannot be read is as if it were not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from agent.allocate_response import SLICES_PER_GPU
from agent.cdi import KIND
from agent.files import UNREADABLE
from agent.kubelet_api.deviceplugin_pb2 import ContainerAllocateResponse
from modes.fraction import ALLOWED_SLICES_PER_GPU

NAME = "kubelet_internal_checkpoint"
MAX_BYTES = 16 * 1024 * 1024
_OURS = re.compile(re.escape(KIND) + r"=.+-of-([0-9]{1,3})")
_SIZES = {str(size): size for size in ALLOWED_SLICES_PER_GPU}


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a container was given of one resource."""

    pod: str
    """UID."""
    container: str
    resource: str
    ids: frozenset[str]
    slices_per_gpu: int | None
    """Of the policy that it was given under; None where the answer does not say it."""


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


class Checkpoint:
    """The file in a folder, decoded again when it is another one.

    Args:
        plugins: the kubelet's folder of device plugins.
    """

    def __init__(self, plugins: Path) -> None:
        self._path = plugins / NAME
        self._stamp: tuple[int, int, int] | None = None
        self._allocations: tuple[Allocation, ...] = ()

    def allocations(self) -> tuple[Allocation, ...]:
        """Return what containers were given; nothing where the file cannot be read. It blocks."""
        try:
            status = self._path.stat()
            stamp = status.st_ino, status.st_mtime_ns, status.st_size
            if stamp != self._stamp:
                self._allocations = tuple(_read(self._path)) if status.st_size <= MAX_BYTES else ()
                self._stamp = stamp
        except UNREADABLE:
            self._stamp, self._allocations = None, ()
        return self._allocations


def divisions_of(allocations: Iterable[Allocation]) -> Mapping[frozenset[str], int]:
    """Return of how many slices a GPU was when these ids were given, for ids whose answer says it."""
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
    # Answers of older agents lack the annotation; our device, where they have one, says the same.
    of_devices = (match[1] for each in given.cdi_devices if (match := _OURS.fullmatch(each.name)))
    return _SIZES.get(given.annotations.get(SLICES_PER_GPU) or next(of_devices, ""))
