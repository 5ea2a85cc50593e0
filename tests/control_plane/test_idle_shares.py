"""Idle pods on a real API server: warned, and evicted after the grace, which the next leader knows of.

The reports on the node's GPUs are the test's, and so are their times: hours pass between two of them.
"""

import json
from datetime import UTC, datetime

import pytest

from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import LABEL
from tests.control_plane.agent_reports import forget, report
from tests.control_plane.test_controller_ledger import gpu_pod

NOTES = {"clearml-injector/injected": "default@1", "clearml-injector/slices": "2"}
POLICIES = """
kind: Policy
name: default
limiter: none
idleAfter: 1h
reclaimIdle: evict
reclaimGrace: 10h
"""
HOUR = 3600
RETRY_S = 180.0
"""The next eviction of a pod is requested after a minute."""


class Reports:
    """What the agent of a node says of its pods, all of them idle since the same time."""

    def __init__(self, control_plane, namespace, node, *pods):
        self._control_plane, self._namespace, self._node, self._pods = control_plane, namespace, node, pods
        self._began = int(datetime.now(UTC).timestamp())
        self._measured = self._began + 2 * HOUR

    def write(self, seconds=1):
        """Report again, as if this many seconds had passed; return whether that is true of some pod."""
        self._measured += seconds
        usage = {"count": len(self._pods), "measured": as_text(self._measured)}
        report(
            self._control_plane, self._node, usage={**usage, "containers": list(map(self._use, self._pods))}
        )
        return True

    def _use(self, pod):
        amounts = dict.fromkeys(("memoryMiB", "usedMiB", "peakMiB", "p95MiB"), 1000)
        since = {"since": as_text(self._began), "idleSince": as_text(self._began)}
        return {"namespace": self._namespace, "pod": pod, "container": pod, "gpu": 0, **amounts, **since}


def as_text(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    """The test's namespace, and the ConfigMap that outlives its controllers."""

    def __init__(self, control_plane, namespace):
        self.api, self.namespace, self.store = control_plane.api, namespace, f"{namespace}-use"
        self.api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.store}}, "default"
        )

    def run_pod(self, name, node):
        """Start a pod that was injected, and wait until it runs."""
        pod = gpu_pod(name, slices=2, nodeName=node)
        pod["metadata"] |= {"annotations": NOTES, "labels": {LABEL: "0.250", "app": name}}
        self.api.create(pod, self.namespace)
        running = lambda: self.api.get("Pod", name, self.namespace)["status"]["phase"] == "Running"  # noqa: E731
        eventually(running, f"{name} runs")

    def guard(self, name):
        """Forbid that a pod is evicted."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
        self.api.create({**budget, "spec": spec}, self.namespace)

    def said(self, name, reason):
        """The Events of a reason on a pod."""
        return self.api.events(self.namespace, about=name, reason=reason)

    def stays(self):
        """Names of the pods that nobody has deleted."""
        pods = [pod["metadata"] for pod in self.api.list("Pod", self.namespace)]
        return {pod["name"] for pod in pods if "deletionTimestamp" not in pod}

    def warnings(self):
        """What the ConfigMap holds of them; empty until it is written."""
        data = self.api.get("ConfigMap", self.store, "default").get("data", {})
        return json.loads(data.get("warnings.json", "{}"))


@pytest.fixture
def cluster(control_plane, namespace):
    made = Cluster(control_plane, namespace)
    yield made
    control_plane.api.delete("ConfigMap", made.store, "default")


@pytest.fixture
def controller(cluster, start, tmp_path):
    """Start a controller with the policies, once there is something to look at."""
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policies.yaml").write_text(POLICIES)
    more = (f"--policies={folder}", f"--use-config-map={cluster.store}")

    def one(name):
        started = start(name, *more)
        started.until_leading()
        return started

    return one


@pytest.mark.timeout(900, func_only=True)
def test_an_idle_pod_is_warned_and_then_evicted_though_the_leader_was_killed_between(
    control_plane, cluster, nodes, controller
):
    [node] = nodes(GpuNode())
    for name in ("idle", "guarded"):
        cluster.run_pod(name, node)
    cluster.guard("guarded")
    reports = Reports(control_plane, cluster.namespace, node, "idle", "guarded")
    reports.write()
    killed = controller("killed")
    eventually(lambda: reports.write() and len(cluster.warnings()) == 2, "both are warned", RETRY_S)
    for name in ("idle", "guarded"):
        [event] = cluster.said(name, "IdleShareWarning")
        assert event["type"] == "Warning"
        assert event["message"].endswith(": it is evicted after another 10 h, unless one runs")
    killed.kill()
    assert cluster.stays() == {"idle", "guarded"}

    # While nobody leads, the grace passes.
    reports.write(11 * HOUR)
    controller("next")
    eventually(
        lambda: reports.write() and cluster.said("guarded", "IdleShareKept"), "guarded is kept", RETRY_S
    )
    eventually(lambda: cluster.said("idle", "IdleShareEvicted"), "idle is evicted")
    eventually(lambda: cluster.stays() == {"guarded"}, "and gone")
    cluster.api.delete("PodDisruptionBudget", "guarded", cluster.namespace, "policy/v1")
    eventually(
        lambda: reports.write() and cluster.said("guarded", "IdleShareEvicted"), "nothing keeps it", RETRY_S
    )
    forget(control_plane, node)
