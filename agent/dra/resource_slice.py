"""The ResourceSlice of a node: its cards as devices of which claims take shares. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.gpu import Gpu
from kube.dra import DRIVER, MEMORY_ATTRIBUTE, SHARE_CAPACITY

API_VERSION = "resource.k8s.io/v1"
MAX_VALUE = 64
"""Characters of an attribute's text."""
XID_TAINT, LOST_TAINT, UNHEALTHY_TAINT = (f"{DRIVER}/{name}" for name in ("xid", "gpu-lost", "unhealthy"))
CORDON_TAINT = f"{DRIVER}/cordoned"
NO_SCHEDULE = "NoSchedule"
"""Effect of all our taints, as of those of NVIDIA's driver: pods that run stay, as with a device plugin."""
_ALL_SHARES = "1M"
"""`SHARES_OF_CARD` as the API server writes it, so that a slice can be compared with what is stored."""
_SHARES = {
    "value": _ALL_SHARES,
    # Kubernetes rounds steps of less than 1 up without saying so, hence millionths.
    "requestPolicy": {"default": _ALL_SHARES, "validRange": {"min": "1", "step": "1"}},
}
LOST = "it does not answer"
"""As `agent.gpu.GpuCondition` says it."""
_XID = re.compile(r"Xid ([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class OfferedCard:
    """A card that is offered."""

    gpu: Gpu
    unhealthy: str | None
    """Why new pods should not get it."""
    is_cordoned: bool = False


def device_number(gpu: Gpu) -> int:
    """Return a card's number, that of its device node as with NVIDIA's driver."""
    return gpu.index if gpu.minor is None else gpu.minor


def device_name(gpu: Gpu) -> str:
    """Return a card's name in slices and claims."""
    return f"gpu-{device_number(gpu)}"


def slice_name(node: str) -> str:
    """Return the name of a node's slice: the same after each restart."""
    return f"{node}-{DRIVER}"


def manifest(node: str, node_uid: str, devices: list[dict[str, Any]], generation: int) -> dict[str, Any]:
    """Return a node's slice; the Node owns it, so it is deleted with the Node.

    All devices are in one slice, so every change is visible at once.

    Args:
        node: name of the Node, and of the pool.
        node_uid: UID of the Node.
        devices: as `devices_of` returns them.
        generation: of the pool; larger after each change.
    """
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name(node), "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def devices_of(cards: Iterable[OfferedCard]) -> list[dict[str, Any]]:
    """Return the devices of a slice."""
    return [_device(card) for card in cards]


def without_times(devices: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stored devices without the times of their taints, which the API server adds."""
    return [
        {**device, "taints": [{key: each[key] for key in each if key != "timeAdded"} for each in taints]}
        if (taints := device.get("taints")) is not None
        else dict(device)
        for device in devices
    ]


def _device(card: OfferedCard) -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": device_name(card.gpu),
        "attributes": _attributes(card.gpu),
        "capacity": {SHARE_CAPACITY: _SHARES},
        "allowMultipleAllocations": True,
    }
    taints = [] if card.unhealthy is None else [_taint(card.unhealthy)]
    taints += [{"key": CORDON_TAINT, "effect": NO_SCHEDULE}] if card.is_cordoned else []
    return {**device, "taints": taints} if taints else device


def _attributes(gpu: Gpu) -> dict[str, dict[str, Any]]:
    texts = {
        "type": "gpu",
        "uuid": gpu.uuid,
        "productName": gpu.model,
        "architecture": gpu.architecture,
        "resource.kubernetes.io/pciBusID": gpu.bus,
    }
    capability, driver = gpu.compute_capability, gpu.driver_version
    versions = {
        "cudaComputeCapability": f"{capability[0]}.{capability[1]}.0" if capability is not None else None,
        "driverVersion": semantic_version(driver) if driver is not None else None,
    }
    integers = {MEMORY_ATTRIBUTE: gpu.usable_mib, "resource.kubernetes.io/numaNode": gpu.numa_node}
    return {
        **{name: {"string": text[:MAX_VALUE]} for name, text in texts.items() if text is not None},
        **{name: {"version": version} for name, version in versions.items() if version is not None},
        **{name: {"int": number} for name, number in integers.items() if number is not None},
    }


def semantic_version(version: str) -> str | None:
    """Return a driver's version such as 595.71.05 in the form of semver.org, 595.71.5; None for others."""
    parts = version.split(".")
    if not 1 <= len(parts) <= 3 or not all(each.isascii() and each.isdigit() for each in parts):  # noqa: PLR2004
        return None
    return ".".join(str(int(each)) for each in [*parts, "0", "0"][:3])


def _taint(why: str) -> dict[str, str]:
    if (found := _XID.fullmatch(why)) is not None:
        return {"key": XID_TAINT, "value": found[1], "effect": NO_SCHEDULE}
    return {"key": LOST_TAINT if why == LOST else UNHEALTHY_TAINT, "effect": NO_SCHEDULE}
