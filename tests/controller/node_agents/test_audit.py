"""The kubelet's books against the ledger: what differs, what lasts, and that it is only told."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller.gpu_node import AgentReport
from controller.ledger_store import LedgerStore
from controller.node_agents.audit import LOOKS, Difference, Looks, differences
from controller.node_agents.audit_loop import AuditLoop
from controller.node_agents.metrics import NodeAgentMetrics
from controller.resources import nodes, pods
from ledger.view import GpuView, Holding, NodeView
from modes.resource_names import ResourceNames
from tests.controller.fake_api import FakeApi, reply, talking_to
from tests.controller.objects import node, pod, read_object

NAMES = ResourceNames()


class Leading:
    leads = True


def view(index, used, *, capacity=8, kind="holder"):
    gpu = GpuView(index, capacity, (Holding("t", "p", kind, used),))
    return NodeView("n", usable=True, slices_per_gpu=8, gpu_mib=None, product=None, gpus=(gpu,))


@pytest.mark.parametrize(
    ("seen", "held", "finished", "differs"),
    [
        (view(0, 4), 4, 0, False),
        (view(0, 4), 8, 0, True),
        (view(0, 4), 0, 0, True),
        (view(0, 4), 8, 4, False),
        (view(0, 4), 8, 3, True),
        (view(0, 4, kind="reservation"), 0, 0, False),
        (view(0, 4, kind="promised"), 0, 0, False),
        (view(0, 4, capacity=0), 0, 0, False),
    ],
)
def test_only_what_bound_pods_hold_is_compared(seen, held, finished, differs):
    assert bool(differences(seen, ((0, held, 1),), {0: finished})) == differs


def test_of_a_pool_the_sum_is_compared():
    assert differences(view(None, 6, capacity=16), ((0, 4, 1), (1, 2, 1)), {}) == []
    [found] = differences(view(None, 6, capacity=16), ((0, 4, 1), (1, 4, 1)), {})
    assert (found.index, found.kubelet, found.pods, found.ledger) == (None, 8, 2, 6)


def test_only_a_difference_that_stays_the_same_lasts():
    looks = Looks()
    other, same, busier = (Difference("n", 0, *each) for each in ((8, 2, 4), (6, 1, 4), (8, 2, 6)))
    lasting = [looks.lasting([each]) for each in (other, same, busier, same)]
    assert lasting == [[], [], [], [same]]
    assert looks.lasting([]) == []
    assert looks.lasting([same]) == []


class Cluster:
    """A node with one pod of four slices, and what its agent says that the kubelet holds."""

    def __init__(self, held, *, registered=True):
        self.store = LedgerStore(lambda: 0.0)
        self.store.set_node(read_object(nodes(NAMES), node("gpu-0")))
        self.store.set_pod(read_object(pods(NAMES), pod("p")))
        told = held if held is None else tuple((index, slices, 1) for index, slices in held)
        self.store.set_agent(AgentReport("gpu-0", (), is_registered=registered, held=told))
        self.registry = CollectorRegistry()
        self.fake = FakeApi(reply({}), reply({}), reply({}))

    def look(self, times=LOOKS):
        async def run():
            async with talking_to(self.fake) as api:
                audit = AuditLoop(api, self.store, Leading(), NodeAgentMetrics(self.registry))
                for _ in range(times):
                    await asyncio.wait_for(audit.look(), 10)

        asyncio.run(run())
        return self

    @property
    def counted(self):
        return self.registry.get_sample_value("fraction_injector_audit_differences")


def test_a_difference_that_lasts_is_told_once_and_counted():
    cluster = Cluster([(0, 8), (1, 0)]).look(LOOKS + 2)
    [(method, path, _, body)] = cluster.fake.asked
    assert (method, path) == ("POST", "/api/v1/namespaces/default/events")
    assert (body["reason"], body["involvedObject"]["name"]) == ("AuditDifference", "gpu-0")
    assert body["message"].startswith("GPU 0: 1 pods hold 8 slices by the kubelet's books, the ledger has 4:")
    assert cluster.counted == 1


@pytest.mark.parametrize(
    "cluster",
    [Cluster([(0, 4), (1, 0)]), Cluster([(0, 8)], registered=False), Cluster(None)],
    ids=["equal", "the agent does not serve", "the agent does not tell"],
)
def test_where_the_books_agree_or_are_not_known_nothing_is_told(cluster):
    assert cluster.look().fake.asked == []
    assert cluster.counted == 0


def test_two_looks_are_not_enough():
    assert Cluster([(0, 8), (1, 0)]).look(LOOKS - 1).fake.asked == []


def test_a_pod_that_has_ended_may_still_stand_in_the_kubelets_books():
    cluster = Cluster([(0, 8), (1, 0)])
    ended = pod("ended")
    ended["status"]["phase"] = "Succeeded"
    cluster.store.set_pod(read_object(pods(NAMES), ended))
    assert cluster.look().counted == 0
