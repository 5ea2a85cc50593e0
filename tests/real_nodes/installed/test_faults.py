"""What goes wrong with nodes and pods while users create one labelled and one unlabelled pod a second."""

import time

import pytest

from testbed.chart import RELEASE
from testbed.process import eventually
from tests.effort import by_turns
from tests.real_nodes.installation import COMPONENTS, READY_S, first, until
from tests.real_nodes.ledgers import until_true
from tests.real_nodes.load import Load, task
from tests.real_nodes.pods import WORK, deployment

RESIDENTS = 4
BEFORE_S, AFTER_S = 2, 4


@pytest.fixture(scope="module")
def residents(installation, cluster):
    """A Deployment of tasks that stay, so that the ledger has something to be wrong about."""
    resident = task("resident", "0.250", restartPolicy="Always")
    del resident["metadata"]["labels"]["created-by"]
    cluster.api.create(deployment(resident, RESIDENTS), WORK)
    eventually(lambda: running(cluster) == RESIDENTS, "the residents run")
    yield
    cluster.api.delete("Deployment", "resident", WORK, "apps/v1")
    eventually(lambda: not cluster.api.list("Pod", WORK, labels="app=resident"), "they are gone")


def running(cluster):
    pods = cluster.api.list("Pod", WORK, labels="app=resident")
    return sum(
        pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods
    )


def roll(installation, cluster):
    names = [f"deployment/{RELEASE}-{component}" for component in COMPONENTS]
    assert installation.kubectl("rollout", "restart", *names).code == 0
    for component in COMPONENTS:
        eventually(lambda c=component: installation.rolled_out(c), f"{component} is updated", READY_S)
        assert {pod.node for pod in installation.pods(component)} == set(cluster.nodes)


def kill_webhook(installation, cluster):
    victim = first(installation.pods("webhook"))
    installation.kill(victim)
    until_restarted(installation, "webhook", victim)


def kill_leader(installation, cluster):
    victim = installation.leader()
    installation.kill(victim)
    until_restarted(installation, "controller", victim)


def until_restarted(installation, component, victim):
    def restarted():
        return any(
            pod.uid == victim.uid and pod.restarts > victim.restarts for pod in installation.pods(component)
        )

    eventually(restarted, f"{victim.name} is started again")


def delete_leader(installation, cluster):
    leader = installation.leader()
    assert installation.kubectl("delete", "pod", leader.name, "--wait=false").code == 0
    eventually(lambda: installation.leader().uid != leader.uid, "another one leads")


def restart(what):

    def fault(installation, cluster):
        for node in cluster.nodes.values():
            getattr(node, f"restart_{what}")()
        for name in cluster.nodes:
            eventually(lambda name=name: cluster.is_ready(name), f"{name} is ready")

    return fault


def drain(installation, cluster):
    node = installation.leader().node
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s")
    drained = cluster.kubectl("drain", node, *options)
    assert drained.code == 0, drained.stderr
    assert not [pod for c in COMPONENTS for pod in installation.pods(c) if pod.node == node]
    assert cluster.kubectl("uncordon", node).code == 0


def reboot(installation, cluster):
    cluster.reboot(first(installation.pods("webhook")).node)


GENTLE = {
    "node drained": drain,
    "leader killed": kill_leader,
    "leader deleted": delete_leader,
    "kubelets restarted": restart("kubelet"),
    "containerd restarted": restart("containerd"),
    "both updated": roll,
}
SUDDEN = {"webhook killed": kill_webhook, "node rebooted": reboot}
"""Nobody can say goodbye: an API server learns of it from the create that it just sent."""


def some(faults):
    """The first of them; all of them in a long run."""
    return list(faults)[: by_turns("real_nodes", usual=2, full=len(faults))]


def under_load(installation, cluster, fault):
    with Load(cluster.api, WORK) as load:
        until(time.monotonic() + BEFORE_S)
        fault(installation, cluster)
        installation.until_served()
        until(time.monotonic() + AFTER_S)
        seen = len(load.creations)
        eventually(
            lambda: any(each.labelled and not each.error for each in load.creations[seen:]),
            "a create that is repeated works",
        )
    return load


@pytest.mark.parametrize("name", some(GENTLE))
def test_no_create_fails_while(name, residents, installation, cluster):
    load = under_load(installation, cluster, GENTLE[name])
    assert load.failed(labelled=True) == []
    assert load.failed(labelled=False) == []
    until_true(cluster, RESIDENTS)


@pytest.mark.parametrize("name", some(SUDDEN))
def test_no_unlabelled_create_fails_while(name, residents, installation, cluster, say):
    load = under_load(installation, cluster, SUDDEN[name])
    assert load.failed(labelled=False) == []
    failed = load.failed(labelled=True)
    labelled = sum(creation.labelled for creation in load.creations)
    say(f"{name}: {len(failed)} of {labelled} labelled creates failed {set(failed) or ''}")
    # Closed, never open: a refused create is one that nobody decided, and it works when it is repeated.
    assert all("failed calling webhook" in error for error in failed)
    until_true(cluster, RESIDENTS)
