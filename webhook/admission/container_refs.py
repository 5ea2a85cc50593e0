"""References to the containers of a pod, with their paths and GPU amounts: one walk for all rules."""

from __future__ import annotations

import re

import msgspec

from kube.dra import CLAIM_NAME, REQUEST_NAME
from modes.mode import Mode
from modes.resource_kinds import ResourceKind
from webhook.admission.host_paths import normalised
from webhook.admission.pod import Container, PodSpec, Resources

GpuAmount = tuple[str, str | int, ResourceKind]
"""A GPU resource in limits or requests, its amount, and the meaning of its name."""


class ContainerRef(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A container and its JSON Pointer in the object; equal only to itself."""

    path: str
    """JSON Pointer, such as "/spec/containers/0"."""
    container: Container
    is_init: bool
    paths: list[tuple[str, str]]
    """Paths in it that do not come from its image, mounts first: as written, and normalised."""
    gpu_amounts: list[GpuAmount]
    """GPU resources in limits, then in requests."""
    variables: set[str]
    """Names of its environment variables."""
    has_claim: bool = False
    """Whether it uses the claim of the pod's share."""

    @property
    def asks_for_gpu(self) -> bool:
        """Whether it requests more than zero of a GPU resource, the user's or ours, or uses our claim."""
        return self.has_claim or any(
            kind.asks and amount not in {"0", 0} for _, amount, kind in self.gpu_amounts
        )

    @property
    def runs_concurrently(self) -> bool:
        """Whether it is a regular container or a native sidecar, which run at the same time."""
        return not self.is_init or self.container.is_native_sidecar


def container_refs(spec: PodSpec, mode: Mode, root: str = "/spec") -> list[ContainerRef]:
    """Return references to all containers: the init containers, then the regular ones."""
    lists = (("/initContainers/", spec.init_containers, True), ("/containers/", spec.containers, False))
    return [
        ContainerRef(
            f"{root}{place}{position}",
            container,
            is_init,
            _paths(container),
            _gpu_amounts(container.resources, mode),
            {entry.name for entry in container.env or ()},
            _has_claim(container.resources),
        )
        for place, containers, is_init in lists
        if containers
        for position, container in enumerate(containers)
    ]


def _paths(container: Container) -> list[tuple[str, str]]:
    found = [mount.mount_path for mount in container.volume_mounts or ()]
    if container.volume_devices:
        found += [device.device_path for device in container.volume_devices]
    if container.termination_message_path is not None:
        found.append(container.termination_message_path)
    return [(path, normalised(path)) for path in found]


_OF_SHARE = re.compile(rf"({REQUEST_NAME}(-[0-9]{{1,2}})?)?", re.ASCII)
"""Requests with which a container uses the share: the kubelet gives nothing for an unknown one."""


def _has_claim(resources: Resources | None) -> bool:
    used = (resources.claims if resources else None) or ()
    return any(each.name == CLAIM_NAME and _OF_SHARE.fullmatch(each.request or "") for each in used)


def _gpu_amounts(resources: Resources | None, mode: Mode) -> list[GpuAmount]:
    if resources is None:
        return []
    kinds = mode.kinds
    return [
        (resource, amount, kind)
        for amounts in (resources.limits, resources.requests)
        if amounts
        for resource, amount in amounts.items()
        if (kind := kinds[resource]) is not None
    ]
