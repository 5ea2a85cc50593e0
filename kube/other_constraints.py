"""What keeps a pod off nodes and does not count when its GPU is chosen: only the scheduler knows enough."""

from __future__ import annotations

from typing import Any

import msgspec

from kube.objects import Affinity


class _PodTerms(msgspec.Struct):
    required: list[Any] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Affinity, rename="camel"):
    pod_affinity: _PodTerms = msgspec.field(default_factory=_PodTerms)
    pod_anti_affinity: _PodTerms = msgspec.field(default_factory=_PodTerms)


class _Container(msgspec.Struct):
    ports: list[dict[str, Any]] | None = None


class ConstrainedSpec(msgspec.Struct, rename="camel"):
    """The part of a pod's `spec` that holds them."""

    affinity: _Affinity | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None
    volumes: list[dict[str, Any]] | None = None
    containers: list[_Container] | None = None

    @property
    def not_considered(self) -> str:
        """Their names; empty without any."""
        affinity = self.affinity or _Affinity()
        spreads = [each.get("whenUnsatisfiable") for each in self.topology_spread_constraints or ()]
        ports = [port for each in self.containers or () for port in each.ports or ()]
        found = {
            "pod affinity": affinity.pod_affinity.required,
            "pod anti-affinity": affinity.pod_anti_affinity.required,
            "topology spread": "DoNotSchedule" in spreads,
            "volumes": any(each.get("persistentVolumeClaim") for each in self.volumes or ()),
            "host ports": any(port.get("hostPort") for port in ports),
        }
        return " and ".join([name for name, is_there in found.items() if is_there])


def chosen_without(not_considered: str) -> str:
    """Return what a pod's author should know of them, and can do."""
    what = f"its GPU was chosen without its {not_considered}"
    return f"{what}: if that excludes nodes, add a nodeSelector for the others"
