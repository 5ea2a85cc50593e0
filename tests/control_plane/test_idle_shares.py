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


def as_text(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    """The test's pods, what their node's agent says of them, and the ConfigMap that outlives controllers.

    All of the pods are idle since the same time.
    """

    def __init__(self, control_plane, namespace, node, *pods):
        self.api, self.namespace, self.store = control_plane.api, namespace, f"{namespace}-use"
        store = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.store}}
        self.api.create(store, "default")
        self._control_plane, self._node, self._pods = control_plane, node, pods
        self._began = int(datetime.now(UTC).timestamp())
        self._measured = self._began + 2 * HOUR

    def report(self, seconds=1):
        """Report again, as if this many seconds had passed; it is true that it did."""
        self._measured += seconds
        amounts = dict.fromkeys(("memoryMiB", "usedMiB", "peakMiB", "p95MiB"), 1000)
        since = {"since": as_text(self._began), "idleSince": as_text(self._began)}
        used = [
            {"namespace": self.namespace, "pod": pod, "container": pod, "gpu": 0, **amounts, **since}
            for pod in self._pods
        ]
        usage = {"count": len(used), "measured": as_text(self._measured), "containers": used}
        report(self._control_plane, self._node, usage=usage)
        return True

    def run_pods(self):
        """Start the pods, which were injected, and wait until they run."""
        for name in self._pods:
            pod = gpu_pod(name, slices=2, nodeName=self._node)
            pod["metadata"] |= {"annotations": NOTES, "labels": {LABEL: "0.250", "app": name}}
            self.api.create(pod, self.namespace)
        of = lambda: [each["status"]["phase"] for each in self.api.list("Pod", self.namespace)]  # noqa: E731
        eventually(lambda: set(of()) == {"Running"}, "they run")

    def guard(self, name):
        """Forbid that a pod is evicted."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
        self.api.create({**budget, "spec": spec}, self.namespace)

    def said(self, name, reason):
        return self.api.events(self.namespace, about=name, reason=reason)

    def until_said(self, name, reason):
        """Wait for an Event, while the agent reports."""
        eventually(lambda: self.report() and self.said(name, reason), f"{name}: {reason}", RETRY_S)

    def stays(self):
        """Names of the pods that nobody has deleted."""
        pods = [pod["metadata"] for pod in self.api.list("Pod", self.namespace)]
        return {pod["name"] for pod in pods if "deletionTimestamp" not in pod}

    def warnings(self):
        """What the ConfigMap holds of them; empty until it is written."""
        data = self.api.get("ConfigMap", self.store, "default").get("data", {})
        return json.loads(data.get("warnings.json", "{}"))


@pytest.mark.timeout(900, func_only=True)
def test_an_idle_pod_is_warned_and_then_evicted_though_the_leader_was_killed_between(
    control_plane, namespace, nodes, start, tmp_path
):
    [node] = nodes(GpuNode())
    cluster = Cluster(control_plane, namespace, node, "idle", "guarded")
    cluster.run_pods()
    cluster.guard("guarded")
    cluster.report()
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "default.yaml").write_text(POLICIES)
    options = (f"--policies={policies}", f"--use-config-map={cluster.store}")
    killed = start("killed", *options)
    eventually(lambda: cluster.report() and len(cluster.warnings()) == 2, "both are warned", RETRY_S)
    for name in ("idle", "guarded"):
        [event] = cluster.said(name, "IdleShareWarning")
        assert event["type"] == "Warning"
        assert event["message"].endswith(": it is evicted after another 10 h, unless one runs")
    killed.kill()
    assert cluster.stays() == {"idle", "guarded"}

    # While nobody leads, the grace passes.
    cluster.report(11 * HOUR)
    start("next", *options)
    cluster.until_said("guarded", "IdleShareKept")
    eventually(lambda: cluster.said("idle", "IdleShareEvicted"), "idle is evicted")
    eventually(lambda: cluster.stays() == {"guarded"}, "and gone")
    cluster.api.delete("PodDisruptionBudget", "guarded", namespace, "policy/v1")
    cluster.until_said("guarded", "IdleShareEvicted")
    forget(control_plane, node)
    cluster.api.delete("ConfigMap", cluster.store, "default")
