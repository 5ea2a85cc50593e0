"""The containers of a pod, each with its place and with what it asks of GPUs: one walk for all rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webhook.injection.modes import Mode
from webhook.injection.resource_kinds import ResourceKind
from webhook.pod import Container, PodSpec

GpuAmount = tuple[str, str | int, ResourceKind]
"""A resource of limits or requests that has to do with GPUs, its amount, and what the name means."""


class Slot(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A container and where it stands in the object; equal only to itself."""

    path: str
    """JSON Pointer, such as "/spec/containers/0"."""
    container: Container
    is_init: bool
    gpu_amounts: list[GpuAmount]
    """Of limits, then of requests; what has nothing to do with GPUs is left out."""

    @property
    def asks_for_gpu(self) -> bool:
        """Whether it asks for more than zero of a GPU, in the user's words or in ours."""
        return any(kind.asks and amount not in {"0", 0} for _, amount, kind in self.gpu_amounts)

    @property
    def runs_beside(self) -> bool:
        """Whether it runs while regular containers do: it is one, or a native sidecar."""
        return not self.is_init or self.container.is_native_sidecar


def slots(spec: PodSpec, mode: Mode, root: str = "/spec") -> list[Slot]:
    """Give every container with its place: the init containers, then the regular ones."""
    regular = _slots(spec.containers or (), f"{root}/containers/", mode, is_init=False)
    if not spec.init_containers:
        return list(regular)
    return [*_slots(spec.init_containers, f"{root}/initContainers/", mode, is_init=True), *regular]


def _slots(containers: Iterable[Container], place: str, mode: Mode, *, is_init: bool) -> Iterator[Slot]:
    for position, container in enumerate(containers):
        yield Slot(f"{place}{position}", container, is_init, _gpu_amounts(container, mode))


def _gpu_amounts(container: Container, mode: Mode) -> list[GpuAmount]:
    resources, kinds = container.resources, mode.kinds
    if resources is None:
        return []
    return [
        (resource, amount, kind)
        for amounts in (resources.limits, resources.requests)
        if amounts
        for resource, amount in amounts.items()
        if (kind := kinds[resource]) is not None
    ]
