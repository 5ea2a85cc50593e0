"""The custom resource GpuNode: an agent's report on the GPUs of its node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.driver_limits import LIMIT
from agent.gpu import Gpu
from agent.options import UNUSED, Offer
from agent.settings import NO_LIMITER, LimiterPart
from agent.state import HELD, AgentState, Unlimited
from kube.names import API_VERSION
from modes.mig_profiles import card_of_profiles

MAX_TEXT = 1024
MAX_UNLIMITED = 16
"""Maximum number of listed containers."""
MAX_USES = 128
"""Likewise, of what containers use."""
MAX_REASON = 256
WITHOUT_LIMITER = LimiterPart(NO_LIMITER)


def manifest(  # noqa: PLR0913 what a report consists of
    node: str,
    node_uid: str,
    gpus: Collection[Gpu],
    state: AgentState,
    boot_id: str,
    *,
    whole: Collection[str] = (),
    offer: Offer = "device-plugin",
    limiter: LimiterPart = WITHOUT_LIMITER,
) -> dict[str, Any]:
    """Return the object; the Node owns it, so it is deleted with the Node.

    Args:
        node: name of the Node.
        node_uid: UID of the Node.
        gpus: all GPUs, also those in MIG mode and whole ones.
        state: the rest of the report.
        boot_id: ID of the node's boot; empty if unknown.
        whole: UUIDs of the GPUs that are not divided.
        offer: how the GPUs are offered.
        limiter: that the agent gives containers.
    """
    missing = state.missing
    cards = [_card(gpu, state, is_whole=gpu.uuid in whole) for gpu in gpus]
    status: dict[str, Any] = {
        "gpuCount": len(cards),
        "unhealthy": sum(not card["healthy"] for card in cards),
        "registered": missing is None,
        "bootID": boot_id,
        "gpus": cards,
    }
    if missing is not None:
        status["missing"] = missing[:MAX_TEXT]
    if state.unlimited is not None:
        status["unlimited"] = _unlimited(state.unlimited)
    said, name = (state.driver_limits, limiter.name) if state.gpus else (None, NO_LIMITER)
    if said is not None and LIMIT in dict(limiter.env):
        # Only the driver enforces such a limiter, so it has to.
        said, name = said.removeprefix(UNUSED), NO_LIMITER
    if said is not None:
        status["driverLimits"] = said[:MAX_REASON]
    if limits := ["driver"] * (said == HELD) + [name] * (name != NO_LIMITER):
        status["limit"] = " and ".join(limits)
    if state.uses is not None:
        status["usage"] = _usage(state.uses, state.uses_measured)
    if offer != "device-plugin":
        status["offer"] = offer
    if profiles := _profiles(gpus):
        status["migProfiles"] = profiles
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "GpuNode",
        "metadata": {"name": node, "ownerReferences": [owner]},
        "status": status,
    }


def _card(gpu: Gpu, state: AgentState, *, is_whole: bool) -> dict[str, Any]:
    why, held = state.unhealthy.get(gpu.uuid), (state.held or {}).get(gpu.uuid)
    card: dict[str, Any] = {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "memoryMiB": gpu.memory_mib,
        "reservedMiB": gpu.reserved_mib,
        "healthy": why is None,
        "mig": gpu.mig,
    }
    if gpu.numa_node is not None:
        card["numaNode"] = gpu.numa_node
    if is_whole:
        card["whole"] = True
    if held is not None:
        card |= {"heldSlices": held.slices, "heldPods": held.pods}
    return card if why is None else {**card, "why": why[:MAX_TEXT]}


def _profiles(gpus: Collection[Gpu]) -> list[dict[str, Any]]:
    """Return the profiles of the cards in MIG mode; none if the node has cards of several models.

    The API server would refuse the whole report with profiles that are larger than any card.
    """
    found = next((gpu.mig_profiles for gpu in gpus if gpu.mig_profiles), ())
    models = {gpu.model for gpu in gpus}
    is_known = len(models) == 1 and card_of_profiles("", found) is not None
    return [asdict(each) for each in found] if is_known else []


def _unlimited(found: Collection[Unlimited]) -> dict[str, Any]:
    first = sorted(found, key=lambda each: (each.namespace, each.pod, each.container, each.gpu))
    named = [_container(ContainerName(each.namespace, each.pod, each.container), each) for each in first]
    return {"count": len(found), "containers": named[:MAX_UNLIMITED]}


def _container(name: ContainerName, share: Unlimited | ContainerUse) -> dict[str, Any]:
    return {**asdict(name), "gpu": share.gpu, "memoryMiB": share.memory_mib}


def _usage(found: Collection[ContainerUse], measured: int | None) -> dict[str, Any]:
    first = sorted(
        found, key=lambda each: (each.name.namespace, each.name.pod, each.name.container, each.gpu)
    )
    usage = {"count": len(found), "containers": [_use(each) for each in first[:MAX_USES]]}
    return usage if measured is None else {**usage, "measured": _time(measured)}


def _use(use: ContainerUse) -> dict[str, Any]:
    written: dict[str, Any] = {
        **_container(use.name, use),
        "usedMiB": use.used_mib,
        "peakMiB": use.peak_mib,
        "p95MiB": use.p95_mib,
        "since": _time(use.since),
    }
    if use.busy_percent is not None:
        written["busyPercent"] = use.busy_percent
    if use.idle_since is not None:
        written["idleSince"] = _time(use.idle_since)
    return written


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
