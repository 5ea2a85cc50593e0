"""What of a pod the scheduler alone considers."""

import msgspec
import pytest

from kube.other_constraints import ConstrainedSpec

REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"affinity": {"podAffinity": REQUIRED}}, "pod affinity"),
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "pod anti-affinity"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topology spread"),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}, "volumes"),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports"),
        ({"affinity": {"podAntiAffinity": PREFERRED}}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"volumes": [{"emptyDir": {}}], "containers": [{"ports": [{"containerPort": 80}]}]}, ""),
    ],
)  # fmt: skip
def test_what_only_the_scheduler_considers_is_named_if_it_can_exclude_nodes(spec, named):
    assert msgspec.convert(spec, ConstrainedSpec).not_considered == named
