"""Pods that wait on their index while another GPU has room: replaced where the policy says so, else left."""

import asyncio
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from certs.authority import make_authority
from cluster.kube_client import connect
from controller.pods.pending_pod import read_pod
from controller.publish.metrics import ControllerMetrics
from controller.replace.pod_deletion import PodDeletion
from testbed.controller_process import SHORT_LEASE, Controller, install_crd, registered_webhook, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.registration import LABEL, labelled_pod

QUEUE = "clearml-agent-queue-name"
POLICIES = """
kind: Policy
name: default
limiter: none
---
kind: Policy
name: eager
limiter: none
replaceWaiting: {after: 1s}
---
kind: Queues
queues:
  eager: {policy: eager}
"""
MEMORY_MIB = {"bare": 24576, "job": 40960, "left": 81920, "set": 143360}
"""Of a node for each pod that waits: pods that want different memory wait apart, each on its lowest index."""


@contextmanager
def product(control_plane, namespace, folder):
    """A leading controller that reads the policies, and a registered webhook."""
    install_crd(control_plane.api)
    policies = folder / "policies"
    policies.mkdir()
    (policies / "policies.yaml").write_text(POLICIES)
    tls = write_tls(folder / "tls", make_authority(datetime.now(UTC)))
    more = (*SHORT_LEASE, f"--policies={policies}")
    with ExitStack() as stack:
        controller = Controller(control_plane.kubeconfig, folder, tls, f"replacing-{namespace}", more=more)
        stack.callback(controller.stop)
        controller.until_leading()
        stack.enter_context(registered_webhook(control_plane.api, namespace, controller, folder, policies))
        yield


def workload(name, node, queue):
    """A pod of five eighths, alone or as a ReplicaSet or Job would create it."""
    selector = {"kubernetes.io/hostname": node}
    spec = {**labelled_pod("task")["spec"], "nodeSelector": selector}
    labels = {LABEL: "0.625", QUEUE: queue, "app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    if name == "bare":
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "bare", "labels": labels},
            "spec": spec,
        }
    if name == "job":
        template["spec"]["restartPolicy"] = "Never"
        inner, api, kind = {"backoffLimit": 0}, "batch/v1", "Job"
    else:
        inner, api, kind = {"selector": {"matchLabels": {"app": name}}}, "apps/v1", "ReplicaSet"
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**inner, "template": template},
    }


def of(api, namespace, name):
    """The one pod of a workload; None while there is none."""
    found = api.list("Pod", namespace, labels=f"app={name}")
    return found[0] if len(found) == 1 else None


def index_of(pod):
    return pod["metadata"]["annotations"]["clearml-injector/gpu-index"]


def waits(pod):
    """Whether the scheduler has found too few slices for it."""
    conditions = pod["status"].get("conditions", []) if pod else []
    return any("Insufficient nvidia.com/gpu-" in condition.get("message", "") for condition in conditions)


def wait_next_to_room(api, namespace, name, node, queue="eager"):
    """Have a workload's pod wait on one GPU of a node while the other is idle; return the pod."""
    holders = [f"{name}-holds-{number}" for number in range(2)]
    for holder in holders:
        api.create(labelled_pod(holder, "0.875", nodeName=node), namespace)
    eventually(
        lambda: all(api.get("Pod", h, namespace)["status"]["phase"] == "Running" for h in holders), "full"
    )
    api.create(workload(name, node, queue), namespace)
    eventually(lambda: waits(of(api, namespace, name)), f"the pod of {name} waits")
    pod = of(api, namespace, name)
    for holder in holders:
        if index_of(api.get("Pod", holder, namespace)) != index_of(pod):
            api.delete("Pod", holder, namespace)
    return pod


def test_only_a_pod_that_is_created_again_is_replaced_and_only_where_the_policy_says_so(
    control_plane, namespace, nodes, tmp_path
):
    api = control_plane.api
    names = nodes(*[GpuNode(gpus=2, memory_mib=mib) for mib in MEMORY_MIB.values()])
    node = dict(zip(MEMORY_MIB, names, strict=True))
    with product(control_plane, namespace, tmp_path):
        # These begin to wait first, and so would be replaced first.
        stay = {
            "bare": wait_next_to_room(api, namespace, "bare", node["bare"]),
            "job": wait_next_to_room(api, namespace, "job", node["job"]),
            "left": wait_next_to_room(api, namespace, "left", node["left"], "other"),
        }
        before = wait_next_to_room(api, namespace, "set", node["set"])

        def replaced():
            pod = of(api, namespace, "set")
            return pod if pod and pod["status"]["phase"] == "Running" else None

        after = eventually(replaced, "the ReplicaSet's pod runs")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert index_of(after) != index_of(before)
        for name, pod in stay.items():
            found = of(api, namespace, name)
            assert found["metadata"]["uid"] == pod["metadata"]["uid"]
            assert "deletionTimestamp" not in found["metadata"]
            assert waits(found)

        def reported():
            return api.events(namespace, reason="WaitingPodReplaced")

        [event] = eventually(reported, "an Event says why")
    room = f"GPU {index_of(after)} of {node['set']} has room"
    assert event["involvedObject"]["uid"] == before["metadata"]["uid"]
    assert room in event["message"]
    assert event["message"].endswith("deleted, so that ReplicaSet set creates another")


def test_kubernetes_counts_a_deleted_pod_of_a_job_as_failed(control_plane, namespace):
    api = control_plane.api
    template = {"spec": {**labelled_pod("task")["spec"], "restartPolicy": "Never"}}
    template["spec"]["nodeSelector"] = {"no": "node"}
    template["metadata"] = {"labels": {"app": "job"}}
    spec = {"backoffLimit": 0, "template": template}
    api.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}, namespace
    )
    pod = eventually(lambda: of(api, namespace, "job"), "the Job's pod is there")
    api.delete("Pod", pod["metadata"]["name"], namespace)

    def conditions():
        return api.get("Job", "job", namespace, api="batch/v1")["status"].get("conditions", [])

    failed = eventually(lambda: [c for c in conditions() if c["type"] == "Failed"], "the Job has failed")
    assert failed[0]["reason"] == "BackoffLimitExceeded"


class Leading:
    leads = True


def test_a_pod_that_changed_since_it_was_read_is_not_deleted(control_plane, namespace):
    unlabelled = {**labelled_pod("task", nodeSelector={"no": "node"}), "metadata": {"name": "task"}}
    uid = control_plane.api.create(unlabelled, namespace)["metadata"]["uid"]
    eventually(
        lambda: control_plane.api.get("Pod", "task", namespace)["status"].get("conditions"), "looked at"
    )

    async def deletions():
        api = await connect(control_plane.kubeconfig)
        deletion = PodDeletion(api, Leading(), ControllerMetrics(CollectorRegistry()))
        key = namespace, "task"
        try:
            stale = await read_pod(api, key, uid)
            change = {"metadata": {"annotations": {"changed": "since"}}}
            await asyncio.to_thread(control_plane.api.patch, "Pod", "task", change, namespace)
            fresh = await read_pod(api, key, uid)
            return [await deletion.delete(key, read) for read in (stale, fresh, fresh)]
        finally:
            await api.close()

    assert asyncio.run(deletions()) == [False, True, False]
    assert control_plane.api.list("Pod", namespace) == []
