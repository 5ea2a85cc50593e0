"""GpuNodes, with the fields that the checks look at. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.watch.gpu_node import AgentReport, UnlimitedContainers
from doctor.objects import NamedObject
from doctor.seen import AgentSays


class _Card(msgspec.Struct):
    index: int
    healthy: bool = False
    why: str = ""
    mig: bool = False
    whole: bool = False
    memory_mib: int = msgspec.field(default=0, name="memoryMiB")
    reserved_mib: int | None = msgspec.field(default=None, name="reservedMiB")

    @property
    def is_shared(self) -> bool:
        return not (self.mig or self.whole)


class _GpuNodeStatus(msgspec.Struct):
    registered: bool = False
    missing: str = ""
    boot_id: str = msgspec.field(default="", name="bootID")
    gpus: list[_Card] = []
    unlimited: UnlimitedContainers | None = None
    driver_limits: str = msgspec.field(default="", name="driverLimits")
    limit: str = ""
    offer: str = ""
    mig_profiles: list[msgspec.Raw] = msgspec.field(default=[], name="migProfiles")


class GpuNodeObject(NamedObject):
    """A GpuNode."""

    status: _GpuNodeStatus | None = None


def reports(found: list[GpuNodeObject] | None) -> Mapping[str, AgentSays]:
    """Return the agents' reports, by node."""
    of_nodes = ((each.metadata.name, each.status or _GpuNodeStatus()) for each in found or ())
    return {node: _says(node, status) for node, status in of_nodes}


def _says(node: str, status: _GpuNodeStatus) -> AgentSays:
    shared: Iterable[_Card] = [each for each in status.gpus if each.is_shared]
    report = AgentReport(
        node,
        (),
        has_healthy_cards=any(each.healthy for each in shared),
        is_registered=status.registered,
        boot_id=status.boot_id,
        offers_by_dra=status.offer == "dra",
    )
    unhealthy = tuple((each.index, each.why or "no reason is given") for each in shared if not each.healthy)
    return AgentSays(
        report,
        status.missing,
        unhealthy,
        tuple(each.index for each in status.gpus),
        unlimited=status.unlimited.containers if status.unlimited is not None else None,
        unlimited_count=status.unlimited.count if status.unlimited is not None else 0,
        driver_limits=status.driver_limits,
        limit=status.limit,
        reserve_unknown=tuple(each.index for each in shared if each.reserved_mib == 0),
        has_mig=any(each.mig for each in status.gpus),
        states_mig=bool(status.mig_profiles),
        memory_mib=min((each.memory_mib for each in shared), default=None),
    )
