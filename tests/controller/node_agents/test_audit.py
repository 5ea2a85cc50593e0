"""What the kubelet's books and the ledger differ in is reported, and nothing is done about it."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller.node_agents.audit import LOOKS, Audit, differences
from controller.publish.metrics import ControllerMetrics
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from ledger.view import GpuView, Holding, NodeView, Unlisted
from modes.resource_names import ResourceNames
from testbed.process import WAIT_S
from tests.cluster.events import KeptEvents
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import node, pod, read_object

NAMES = ResourceNames()


def view(index, used, *, capacity=8, kind="holder", unlisted=None):
    gpu = GpuView(index, capacity, (Holding("t", "p", kind, used),), unlisted=unlisted)
    return NodeView("n", usable=True, slices_per_gpu=8, gpu_mib=None, product=None, gpus=(gpu,))


POOL = view(None, 6, capacity=16)


@pytest.mark.parametrize(
    ("seen", "held", "finished", "by"),
    [
        (view(0, 4), [4], 0, []),
        (view(0, 4), [8], 0, [4]),
        (view(0, 4), [0], 0, [-4]),
        (view(0, 4), [8], 4, []),
        (view(0, 4), [8], 3, [4]),
        (view(0, 4, kind="promised"), [0], 0, []),
        (view(0, 4, capacity=0), [0], 0, []),
        (view(0, 4, unlisted=Unlisted(2, 3, 2)), [4], 0, [-2]),
        (POOL, [4, 2], 0, []),
        (POOL, [4, 4], 0, [2]),
    ],
)
def test_only_what_bound_pods_hold_is_compared(seen, held, finished, by):
    found = differences(seen, tuple(enumerate(held)), {0: finished})
    assert [(each.index, each.by) for each in found] == [(seen.gpus[0].index, amount) for amount in by]


class Cluster:
    """A node with one pod of four slices, and what its agent says that the kubelet holds."""

    def __init__(self, *held, registered=True):
        self.store = LedgerStore(lambda: 0.0)
        self.store.set_node(read_object(nodes(NAMES), node("gpu-0")))
        self.store.set_pod(read_object(pods(NAMES), pod("p")))
        self.registered = registered
        self.report(*held)
        self.registry = CollectorRegistry()
        self.kept = KeptEvents()
        self.audit = Audit(self.kept, self.store, Leading(), ControllerMetrics(self.registry))

    def report(self, *held):
        report = tuple(enumerate(held)) or None
        self.store.set_agent(AgentReport("gpu-0", (), is_registered=self.registered, held=report))

    def look(self, times=LOOKS):
        for _ in range(times):
            asyncio.run(asyncio.wait_for(self.audit.look(), WAIT_S))
        return self

    @property
    def counted(self):
        return self.registry.get_sample_value("fraction_injector_audit_differences")


def test_a_difference_that_lasts_is_reported_once_and_counted():
    cluster = Cluster(8, 0).look(LOOKS + 2)
    [body] = cluster.kept.bodies
    assert (body["reason"], body["involvedObject"]["name"]) == ("AuditDifference", "gpu-0")
    assert body["message"].startswith("GPU 0: the kubelet counts 4 slices more than the ledger: compare ")
    assert cluster.counted == 1


def test_a_difference_that_changes_or_ends_meanwhile_does_not_last():
    cluster = Cluster(8, 0).look(LOOKS - 1)
    for held in (6, 4, 8):
        cluster.report(held, 0)
        cluster.look(1)
    assert cluster.kept.bodies == []


@pytest.mark.parametrize(
    "cluster",
    [Cluster(4, 0), Cluster(8, registered=False), Cluster()],
    ids=["equal", "the agent does not serve", "the agent does not tell"],
)
def test_where_the_books_agree_or_are_not_known_nothing_is_reported(cluster):
    assert cluster.look().kept.bodies == []
    assert cluster.counted == 0


def test_a_pod_that_has_ended_may_still_stand_in_the_kubelets_books():
    cluster = Cluster(8, 0)
    ended = pod("ended")
    ended["status"]["phase"] = "Succeeded"
    cluster.store.set_pod(read_object(pods(NAMES), ended))
    assert cluster.look().counted == 0
