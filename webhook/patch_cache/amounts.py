"""Amounts of CPU and memory, which leave the cache key: pods that differ only in them share an entry.

The rules read these amounts to place the pod, and copy those of the GPU container into the limiter's init
container. Where they stand is read by the rules' own types, once for an entry, from a representative pod with
marks instead of amounts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kube.quantity import read_milli
from kube.resource_requests import Container, ContainerRequests, effective_request
from webhook.admission import pod as admission
from webhook.patch_cache.key import SEPARATOR, PlainKey, SizedKey, Texts
from webhook.patch_cache.template import MARK

MAX_BYTES = 2**14
"""Maximum bytes of a pod's resources of which the amounts leave the key."""
_AMOUNT = re.compile(rb'"(cpu|memory)"\s*:\s*"([0-9A-Za-z.+-]*)"')
"""In JSON each quote without a backslash begins or ends a string, and a string before a colon is a name.
No text with a backslash becomes a key (PatchCache._add)."""


def without_amounts(key: SizedKey) -> tuple[PlainKey, Sequence[bytes]] | None:
    """Take the amounts out of a key; None if its resources are too long."""
    if len(key[-1]) > MAX_BYTES:
        return None
    texts = _AMOUNT.split(key[-1])
    amounts = texts[2::3]
    del texts[2::3]
    return (*key[:-1], tuple(texts)), amounts


def marks_of(texts: Texts) -> list[str]:
    """Return the marks that stand for the amounts in a representative pod."""
    return [f"{MARK}amount-{at}{MARK}" for at in range(len(texts) // 2)]


def with_marks(texts: Texts) -> list[bytes]:
    """Return the JSON resources of each container; empty for one without."""
    names = zip(texts[1::2], marks_of(texts), strict=True)
    marked = [b'"%b":"%b"' % (name, mark.encode()) for name, mark in names]
    pairs = zip(texts[::2], [*marked, b""], strict=True)
    return b"".join([part for pair in pairs for part in pair]).split(SEPARATOR)


class Requests:
    """The requests of all pods with a key: of each container, an amount or the mark that stands for it."""

    def __init__(self, spec: admission.PodSpec, marks: Sequence[str]) -> None:
        """Read from the representative pod where the amounts are."""
        self._marks = marks
        self._containers = [_requests(each) for each in spec.containers or ()]
        self._init_containers = [_requests(each) for each in spec.init_containers or ()]
        self._sums = self._positions("cpu"), self._positions("memory")

    def of(self, amounts: Sequence[bytes]) -> tuple[int, int]:
        """Return the milli-CPU and the bytes of memory that the scheduler counts of a pod with these amounts.

        Raises:
            ValueError: an amount is no quantity.
        """
        cpu, memory = self._sums
        if cpu is not None and memory is not None:
            milli_cpu = size = 0
            for at in cpu:
                milli_cpu += read_milli(amounts[at].decode())
            for at in memory:
                size -= -read_milli(amounts[at].decode()) // 1000
            return max(0, milli_cpu), max(0, size)
        texts = [each.decode() for each in amounts]
        by_mark: dict[str | int, str | int] = dict(zip(self._marks, texts, strict=True))
        counted = effective_request(
            [_with_amounts(each, by_mark) for each in self._containers],
            [_with_amounts(each, by_mark) for each in self._init_containers],
        )
        return counted.cpu_milli, counted.memory_bytes

    def _positions(self, name: str) -> list[int] | None:
        """Return the positions of the amounts whose sum counts; None if it is no mere sum of amounts."""
        own = [each.resources.requests for each in self._containers if each.resources is not None]
        asked = [requests[name] for requests in own if requests and name in requests]
        if self._init_containers or not all(amount in self._marks for amount in asked):
            return None
        return [self._marks.index(str(amount)) for amount in asked]


def _requests(container: admission.Container) -> Container:
    requests = container.resources.requests if container.resources is not None else None
    return Container(ContainerRequests(requests), container.restart_policy)


def _with_amounts(container: Container, by_mark: dict[str | int, str | int]) -> Container:
    requests = container.resources.requests if container.resources is not None else None
    own = {name: by_mark.get(amount, amount) for name, amount in requests.items()} if requests else None
    return Container(ContainerRequests(own), container.restart_policy)
