"""The taint of nodes without a serving agent, against an API server of a few lines."""

import asyncio
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from cluster.leader_loop import BUDGET_SECONDS
from cluster.watch_health import WatchHealth
from controller.node_agents import taint_loop
from controller.node_agents.taint_loop import FIRST_PAUSE_SECONDS, GRACE_SECONDS, TaintLoop
from controller.publish.metrics import ControllerMetrics
from controller.watch.agent_coverage import read_agent_pods
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from modes.resource_names import ResourceNames
from testbed.process import WAIT_S
from tests.cluster.fake_api import FakeApi, refusal, reply, talking_to
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import node, pod, read_object

TAINT = {"key": "clearml-injector.io/agent-not-ready", "effect": "NoSchedule"}
ON_GPUS = read_agent_pods(
    '{"nodeSelector":{"nvidia.com/gpu.present":"true"},"tolerations":[{"operator":"Exists"}]}'
)
EVERYWHERE = read_agent_pods('{"tolerations":[{"operator":"Exists"}]}')


class Cluster:
    """A leader's loop, what it knows, and what it asks of the API server."""

    def __init__(self, agents=ON_GPUS, *, listed=True):
        self.now = 0.0
        self.store = LedgerStore(lambda: 0.0)
        if listed:
            self.store.agents_listed = True
        self.registry = CollectorRegistry()
        self.silent = 0.0
        self.health = WatchHealth(lambda: self.silent)
        self.agents = agents
        self.fake = FakeApi()
        self.steps = [0.0]

    def add(self, name, *taints, boot="boot-1", gpu=True, offered="8", whole="0", **labels):
        found = node(name)
        found["status"]["allocatable"] |= {"nvidia.com/gpu": whole}
        found["status"]["allocatable"] |= {f"nvidia.com/gpu-{index}": offered for index in (0, 1)}
        found["spec"]["taints"] = list(taints)
        found["status"]["nodeInfo"] = {"bootID": boot}
        found["metadata"]["labels"] |= ({"nvidia.com/gpu.present": "true"} if gpu else {}) | labels
        self.store.set_node(read_object(nodes(ResourceNames()), found))
        return self

    def run_pod(self, name, node, **more):
        """A pod with slices of GPU 0, or with whole GPUs."""
        found = pod(name, node=node)
        resources = found["spec"]["containers"][0]["resources"]
        for amounts in resources.values():
            amounts |= {f"nvidia.com/{resource}": count for resource, count in more.items()}
            amounts.pop("nvidia.com/gpu-0" if more else "", None)
        self.store.set_pod(read_object(pods(ResourceNames()), found))
        return self

    def report(self, name, *, registered=True, boot="boot-1"):
        cards = (0, 81920), (1, 81920)
        said = AgentReport(name, cards, has_healthy_cards=True, is_registered=registered, boot_id=boot)
        self.store.set_agent(said)
        return self

    def patches(self, *answers):
        """What is asked of the API server in steps at these times."""

        async def run():
            self.fake.script = [reply({}), reply({}), reply({})] if not answers else list(answers)
            async with talking_to(self.fake) as api:
                metrics = ControllerMetrics(self.registry)
                given = api, self.store, Leading(), metrics, self.agents
                loop = TaintLoop(*given, health=self.health, clock=lambda: self.now)
                for now in self.steps:
                    self.now = now
                    await asyncio.wait_for(loop.step(), WAIT_S)

        with mock.patch.object(taint_loop, "WRITE_SECONDS", WAIT_S):
            asyncio.run(run())
        assert {method for method, *_ in self.fake.asked} <= {"PATCH"}
        return [(path.rpartition("/")[2], body[-1]["op"]) for _, path, _, body in self.fake.asked]


def left(*taints, offered="0", **more):
    """A node whose agent left, by its last report."""
    return Cluster().add("n", *taints, gpu=False, offered=offered, **more).report("n", registered=False)


ADDED, REMOVED = [("n", "add")], [("n", "remove")]
ON_TIME, LATE = [0.0, GRACE_SECONDS - 1], [0.0, GRACE_SECONDS]
PAUSED = {"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"}


@pytest.mark.parametrize(
    ("cluster", "steps", "patched"),
    [
        pytest.param(Cluster().add("n"), [0.0], ADDED, id="new, no agent has reported"),
        pytest.param(Cluster().add("n", boot="boot-2").report("n"), [0.0], ADDED, id="started again"),
        pytest.param(Cluster().add("n").report("n"), LATE, [], id="serves"),
        pytest.param(Cluster().add("n").report("n", boot=""), LATE, [], id="serves, of an unknown boot"),
        pytest.param(Cluster().add("n", boot="").report("n"), LATE, [], id="serves, a Node without boot ID"),
        pytest.param(Cluster().add("n", TAINT).report("n"), [0.0], REMOVED, id="serves again"),
        pytest.param(Cluster().add("n").report("n", registered=False), ON_TIME, [], id="rolling update"),
        pytest.param(Cluster().add("n").report("n", registered=False), LATE, ADDED, id="stays unregistered"),
        pytest.param(Cluster().add("n", TAINT).report("n", registered=False), LATE, [], id="held, registers"),
        pytest.param(Cluster().add("n", TAINT, boot="boot-2").report("n"), LATE, [], id="held, restarts"),
        pytest.param(Cluster().add("n", offered="0").report("n"), ON_TIME, [], id="just fell silent"),
        pytest.param(Cluster().add("n", offered="0").report("n"), LATE, ADDED, id="died without a word"),
        pytest.param(Cluster().add("n", TAINT, offered="0").report("n"), LATE, [], id="held, dead"),
        pytest.param(Cluster().add("n", gpu=False), [0.0], [], id="no agent to be"),
        pytest.param(Cluster(EVERYWHERE).add("n", gpu=False), [0.0], [], id="no GPUs"),
        pytest.param(
            Cluster().add("n", TAINT, gpu=False, boot="boot-2").report("n"), [0.0], REMOVED, id="not covered"
        ),
        # At once: the next device plugin does not know of the pods.
        pytest.param(
            Cluster().add("n", gpu=False).report("n").run_pod("half", "n"), [0.0], ADDED, id="leaves, in use"
        ),
        pytest.param(left().run_pod("half", "n"), [0.0], ADDED, id="left, in use"),
        pytest.param(left(whole="2").run_pod("half", "n"), [0.0], ADDED, id="others offer its cards whole"),
        pytest.param(left(TAINT).run_pod("half", "n"), [0.0, 10 * GRACE_SECONDS], [], id="held, in use"),
        pytest.param(left(TAINT), [0.0], REMOVED, id="held, the last pod has ended"),
        pytest.param(left(TAINT, offered="8").run_pod("half", "n"), ON_TIME, [], id="held, old status"),
        pytest.param(left(TAINT, offered="8").run_pod("half", "n"), LATE, REMOVED, id="held, others offer"),
        pytest.param(left(offered="8").run_pod("half", "n"), LATE, [], id="others offer the same"),
        pytest.param(left(**PAUSED).run_pod("user", "n"), [0.0], [], id="paused by the GPU operator"),
        pytest.param(left().run_pod("user", "n", gpu="1"), [0.0], [], id="in use by whole GPUs"),
        pytest.param(
            Cluster().add("n", gpu=False, offered="0").run_pod("half", "n"),
            [0.0],
            [],
            id="never had an agent",
        ),
    ],
)
def test_a_node_is_held_while_its_agent_does_not_serve_or_left_pods_behind(cluster, steps, patched):
    cluster.steps = steps
    assert cluster.patches() == patched


def test_with_the_agent_off_our_taint_goes_everywhere_and_no_other_does():
    cluster = Cluster(None, listed=False).add("a", TAINT).add("b", {"key": "other", "effect": "NoSchedule"})
    assert cluster.patches() == [("a", "remove")]


@pytest.mark.parametrize("blind", ["not listed", "failed"])
def test_nothing_is_held_by_what_a_silent_watch_does_not_tell(blind):
    cluster = Cluster(listed=blind != "not listed").add("n")
    if blind == "failed":
        cluster.health.failed("the watch broke")
        cluster.silent = 60.0
    assert cluster.patches() == []


def test_a_node_that_changed_meanwhile_is_tried_again():
    cluster = Cluster().add("n")
    cluster.steps = [0.0, 1.0]
    assert cluster.patches(refusal(422), reply({})) == [("n", "add"), ("n", "add")]


def test_without_the_right_it_says_what_to_run_and_asks_later(capfd):
    cluster = Cluster(None).add("a", TAINT).add("b", TAINT)
    cluster.steps = [0.0, FIRST_PAUSE_SECONDS - 1, FIRST_PAUSE_SECONDS]
    refused = [refusal(403)] * 4
    assert cluster.patches(*refused) == [("a", "remove"), ("b", "remove")] * 2
    said = "kubectl taint nodes a clearml-injector.io/agent-not-ready:NoSchedule-"
    assert said in capfd.readouterr().err


@pytest.mark.parametrize("status", [403, 500])
def test_a_node_that_may_not_be_changed_stops_no_other(status):
    cluster = Cluster().add("a").add("b")
    assert cluster.patches(refusal(status), reply({})) == [("a", "add"), ("b", "add")]


async def test_nodes_that_hang_do_not_use_up_a_step():
    cluster, waited = Cluster().add("a").add("b").add("c").add("d"), []

    class Hangs:
        async def request(self, *_, seconds=BUDGET_SECONDS, **__):
            waited.append(seconds)
            raise TimeoutError

    given = Hangs(), cluster.store, Leading(), ControllerMetrics(cluster.registry), cluster.agents
    await TaintLoop(*given, health=cluster.health).step()
    assert len(waited) == 4
    assert sum(waited) < BUDGET_SECONDS / 2


def test_held_nodes_are_counted():
    cluster = Cluster().add("a", TAINT).add("b").report("b")
    cluster.patches()
    assert cluster.registry.get_sample_value("fraction_injector_nodes_held") == 1
