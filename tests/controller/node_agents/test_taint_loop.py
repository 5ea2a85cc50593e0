"""The taint of nodes without a serving agent, against an API server of a few lines."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from cluster.kube_client import REQUEST_SECONDS
from cluster.leader_loop import BUDGET_SECONDS
from cluster.watch_health import WatchHealth
from controller.node_agents.decision import GRACE_SECONDS
from controller.node_agents.metrics import NodeAgentMetrics
from controller.node_agents.taint_loop import FIRST_PAUSE_SECONDS, TaintLoop
from controller.watch.agent_coverage import read_agent_pods
from controller.watch.gpu_node import AgentReport
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from modes.resource_names import ResourceNames
from testbed.process import WAIT_S
from tests.cluster.fake_api import FakeApi, refusal, reply, talking_to
from tests.cluster.objects import node, pod, read_object
from tests.service.virtual_time import VirtualTimeLoop

TAINT = {"key": "clearml-injector.io/agent-not-ready", "effect": "NoSchedule"}
ON_GPUS = read_agent_pods(
    '{"nodeSelector":{"nvidia.com/gpu.present":"true"},"tolerations":[{"operator":"Exists"}]}'
)
EVERYWHERE = read_agent_pods('{"tolerations":[{"operator":"Exists"}]}')


class Leading:
    leads = True


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
                metrics = NodeAgentMetrics(self.registry)
                given = api, self.store, Leading(), metrics, self.agents
                loop = TaintLoop(*given, health=self.health, clock=lambda: self.now)
                for now in self.steps:
                    self.now = now
                    await asyncio.wait_for(loop.step(), WAIT_S)

        asyncio.run(run())
        assert {method for method, *_ in self.fake.asked} <= {"PATCH"}
        return [(path.rpartition("/")[2], body[-1]["op"]) for _, path, _, body in self.fake.asked]


def test_a_node_that_no_agent_has_reported_from_is_held_at_once():
    cluster = Cluster().add("new")
    assert cluster.patches() == [("new", "add")]
    [(_, path, _, body)] = cluster.fake.asked
    assert path == "/api/v1/nodes/new"
    assert body[-1] == {"op": "add", "path": "/spec/taints", "value": [TAINT]}


def test_a_node_that_was_started_again_is_held_until_its_agent_has_reported_from_this_boot():
    assert Cluster().add("n", boot="boot-2").report("n").patches() == [("n", "add")]
    back = Cluster().add("n", {"key": "other", "effect": "NoExecute"}, TAINT, boot="boot-2")
    back.report("n", boot="boot-2")
    assert back.patches() == [("n", "remove")]
    assert back.fake.asked[0][3][-1]["path"] == "/spec/taints/1"


def test_a_rolling_update_of_the_agent_holds_nothing():
    cluster = Cluster().add("n").report("n", registered=False)
    cluster.steps = [0.0, GRACE_SECONDS - 1]
    assert cluster.patches() == []


def test_an_agent_that_stays_unregistered_has_its_node_held():
    cluster = Cluster().add("n").report("n", registered=False)
    cluster.steps = [0.0, GRACE_SECONDS]
    assert cluster.patches() == [("n", "add")]


def test_an_agent_that_died_without_a_word_has_its_node_held_by_what_the_kubelet_offers():
    cluster = Cluster().add("n", offered="0").report("n")
    cluster.steps = [0.0, GRACE_SECONDS - 1, GRACE_SECONDS]
    assert cluster.patches() == [("n", "add")]
    assert Cluster().add("n", TAINT, offered="0").report("n").patches() == []
    assert Cluster().add("n", TAINT).report("n").patches() == [("n", "remove")]


def test_a_held_node_waits_for_an_agent_that_is_only_about_to_register():
    assert Cluster().add("n", TAINT).report("n", registered=False).patches() == []


@pytest.mark.parametrize("agents", [ON_GPUS, EVERYWHERE])
def test_nodes_without_an_agent_to_be_are_never_held(agents):
    assert Cluster(agents).add("cpu", gpu=False).patches() == []


def test_a_node_that_the_daemon_set_no_longer_covers_is_let_go():
    assert Cluster().add("n", TAINT, gpu=False, boot="boot-2").report("n").patches() == [("n", "remove")]


def test_a_node_whose_agent_leaves_is_held_while_pods_use_its_slices():
    # At once: the next device plugin does not know of them.
    leaving = Cluster().add("n", gpu=False).report("n").run_pod("half", "n")
    assert leaving.patches() == [("n", "add")]
    left = Cluster().add("n", gpu=False, offered="0").report("n", registered=False).run_pod("half", "n")
    assert left.patches() == [("n", "add")]


def test_it_is_held_though_another_plugin_offers_its_cards_whole():
    left = Cluster().add("n", gpu=False, offered="0", whole="2").report("n", registered=False)
    assert left.run_pod("half", "n").patches() == [("n", "add")]


def test_it_stays_held_until_the_last_of_these_pods_has_ended():
    def left():
        return Cluster().add("n", TAINT, gpu=False, offered="0").report("n", registered=False)

    used, ended = left().run_pod("half", "n"), left().run_pod("half", "n")
    used.steps = [0.0, 10 * GRACE_SECONDS]
    assert used.patches() == []
    ended.store.remove_pod(("team", "half"))
    assert ended.patches() == [("n", "remove")]


def test_it_stays_held_though_its_status_is_older_than_the_end_of_its_agent():
    cluster = Cluster().add("n", TAINT, gpu=False).report("n", registered=False).run_pod("half", "n")
    cluster.steps = [0.0, GRACE_SECONDS - 1]
    assert cluster.patches() == []


def test_another_device_plugin_with_the_same_names_may_have_the_node():
    cluster = Cluster().add("n", gpu=False).report("n", registered=False).run_pod("half", "n")
    cluster.steps = [0.0, GRACE_SECONDS]
    assert cluster.patches() == []
    cluster = Cluster().add("n", TAINT, gpu=False).report("n", registered=False).run_pod("half", "n")
    cluster.steps = [0.0, GRACE_SECONDS]
    assert cluster.patches() == [("n", "remove")]


@pytest.mark.parametrize(
    ("labels", "whole"),
    [({"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"}, {}), ({}, {"gpu": "1"})],
    ids=["paused by the GPU operator", "in use by whole GPUs"],
)
def test_a_node_is_not_held_that_is(labels, whole):
    cluster = Cluster().add("n", gpu=False, offered="0", **labels).report("n", registered=False)
    assert cluster.run_pod("user", "n", **whole).patches() == []


def test_a_node_that_never_had_an_agent_is_not_held_by_what_pods_use_there():
    assert Cluster().add("n", gpu=False, offered="0").run_pod("half", "n").patches() == []


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


def test_without_the_right_it_says_once_what_to_run_and_asks_later(capfd):
    cluster = Cluster(None).add("a", TAINT).add("b", TAINT)
    cluster.steps = [0.0, FIRST_PAUSE_SECONDS - 1, FIRST_PAUSE_SECONDS]
    refused = [refusal(403)] * 4
    assert cluster.patches(*refused) == [("a", "remove"), ("b", "remove")] * 2
    said = "kubectl taint nodes --all clearml-injector.io/agent-not-ready:NoSchedule-"
    assert capfd.readouterr().err.count(said) == 1


@pytest.mark.parametrize("status", [403, 500])
def test_a_node_that_may_not_be_changed_stops_no_other(status):
    cluster = Cluster().add("a").add("b")
    assert cluster.patches(refusal(status), reply({})) == [("a", "add"), ("b", "add")]


def test_nodes_that_hang_do_not_use_up_a_step():
    cluster, patched = Cluster(), []
    for name in "abcd":
        cluster.add(name)

    class Hangs:
        async def request(self, _method, path, *, seconds=REQUEST_SECONDS, **_):
            if path[-1] != "d":
                await asyncio.sleep(seconds)
                raise TimeoutError
            patched.append(path[-1])

    async def step():
        given = Hangs(), cluster.store, Leading(), NodeAgentMetrics(cluster.registry), cluster.agents
        async with asyncio.timeout(BUDGET_SECONDS):
            await TaintLoop(*given, health=cluster.health, clock=lambda: 0.0).step()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(step())
    assert patched == ["d"]


def test_held_nodes_are_counted():
    cluster = Cluster().add("a", TAINT).add("b").report("b")
    cluster.patches()
    assert cluster.registry.get_sample_value("fraction_injector_nodes_held") == 1
