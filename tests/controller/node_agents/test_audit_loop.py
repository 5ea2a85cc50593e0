"""What the kubelet's books and the ledger differ in is reported, and nothing is done about it."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller.node_agents.audit import LOOKS
from controller.node_agents.audit_loop import AuditLoop
from controller.node_agents.metrics import NodeAgentMetrics
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from modes.resource_names import ResourceNames
from testbed.process import WAIT_S
from tests.cluster.events import KeptEvents
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import node, pod, read_object

NAMES = ResourceNames()


class Cluster:
    """A node with one pod of four slices, and what its agent says that the kubelet holds."""

    def __init__(self, held, *, registered=True):
        self.store = LedgerStore(lambda: 0.0)
        self.store.set_node(read_object(nodes(NAMES), node("gpu-0")))
        self.store.set_pod(read_object(pods(NAMES), pod("p")))
        report = held if held is None else tuple((index, slices, 1) for index, slices in held)
        self.store.set_agent(AgentReport("gpu-0", (), is_registered=registered, held=report))
        self.registry = CollectorRegistry()
        self.kept = KeptEvents()

    def look(self, times=LOOKS):
        async def run():
            audit = AuditLoop(self.kept, self.store, Leading(), NodeAgentMetrics(self.registry))
            for _ in range(times):
                await asyncio.wait_for(audit.look(), WAIT_S)

        asyncio.run(run())
        return self

    @property
    def counted(self):
        return self.registry.get_sample_value("fraction_injector_audit_differences")


def test_a_difference_that_lasts_is_reported_once_and_counted():
    cluster = Cluster([(0, 8), (1, 0)]).look(LOOKS + 2)
    [body] = cluster.kept.bodies
    assert (body["reason"], body["involvedObject"]["name"]) == ("AuditDifference", "gpu-0")
    assert body["message"].startswith("GPU 0: the kubelet counts 8 slices of 1 pods, the ledger counts 4:")
    assert cluster.counted == 1


@pytest.mark.parametrize(
    "cluster",
    [Cluster([(0, 4), (1, 0)]), Cluster([(0, 8)], registered=False), Cluster(None)],
    ids=["equal", "the agent does not serve", "the agent does not tell"],
)
def test_where_the_books_agree_or_are_not_known_nothing_is_reported(cluster):
    assert cluster.look().kept.bodies == []
    assert cluster.counted == 0


def test_a_pod_that_has_ended_may_still_stand_in_the_kubelets_books():
    cluster = Cluster([(0, 8), (1, 0)])
    ended = pod("ended")
    ended["status"]["phase"] = "Succeeded"
    cluster.store.set_pod(read_object(pods(NAMES), ended))
    assert cluster.look().counted == 0
