"""Cohorts, preemption and many pods: webhook, ledger and second lock go along with Kueue."""

import json
from itertools import groupby
from operator import itemgetter

import pytest

from testbed.api import ApiError
from testbed.chart import Helm
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from tests.control_plane.admission_policies.support import lock_in_effect
from tests.control_plane.kueue.support import KUEUE, is_gated
from tests.effort import by_turns

pytestmark = pytest.mark.usefixtures("lock")
MOST = 10
PODS = by_turns("control_plane", usual=16, full=200)
PRIORITY = "scheduling.k8s.io/v1"


@pytest.fixture
def controller(request, namespace, nodes, serve):
    """The controller and a webhook that asks it, on nodes with room for all; a parameter is a policy."""
    nodes(*[GpuNode(gpus=4, memory="2Ti", cpu="1000")] * 2)
    return serve(getattr(request, "param", "").replace("NAMESPACE", namespace))[0]


@pytest.fixture
def urgent(control_plane):
    """A PriorityClass above the usual."""
    made = {"apiVersion": PRIORITY, "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    path = f"/apis/{PRIORITY}/priorityclasses"
    control_plane.api.call("POST", path, made)
    yield "urgent"
    control_plane.api.call("DELETE", f"{path}/urgent")


@pytest.fixture
def lock(control_plane, own_namespace, tmp_path):
    """The chart's second lock, without its webhook, which is the test's own."""
    rendered = Helm(control_plane, tmp_path).rendered({})
    kinds = ("ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    chosen = [each for each in rendered if each["kind"] in kinds]
    file = tmp_path / "lock.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": chosen}))
    where = (f"--filename={file}", f"--namespace={own_namespace}")
    assert control_plane.kubectl("apply", *where).code == 0
    eventually(lambda: lock_in_effect(control_plane.api), "the lock is in effect")
    yield
    assert control_plane.kubectl("delete", "--ignore-not-found", *where).code == 0
    eventually(lambda: not lock_in_effect(control_plane.api), "the lock is out of effect")


PREEMPT = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def test_a_higher_priority_takes_the_place_of_a_lower_one_and_the_ledger_goes_along(controller, team, urgent):
    queue = team.queue(8, preemption=PREEMPT)
    for name in ("one", "two"):
        team.pod(name, queue)
    eventually(lambda: team.running() == ["one", "two"], "the quota is full")
    team.pod("urgent", queue, priority=urgent)
    eventually(
        lambda: "urgent" in (running := team.running()) and len(running) == 2, "it runs in the place of one"
    )
    eventually(lambda: on_nodes(controller, team) == 8, "the ledger counts those that run")


def on_nodes(controller, team):
    """Slices that the ledger counts on the test's nodes."""
    taken = controller.taken()
    return sum(sum(taken[name].values()) for name in taken if name.startswith(team.namespace))


def backlog(controller, team):
    """Slices of the test's pods that the ledger counts as waiting for the index that they have."""
    pending = [each for each in controller.ledger().backlog if each.namespace == team.namespace]
    return {each.name: each.slices for each in pending if each.indices}


def let_go(team):
    """The pods that Kueue does not hold back, and nobody has deleted."""
    pods = team.api.list("Pod", team.namespace)
    return [pod for pod in pods if not is_gated(pod) and "deletionTimestamp" not in pod["metadata"]]


def test_a_pod_that_kueue_holds_back_has_no_slices_of_a_node(controller, team):
    queue = team.queue(4)
    team.pod("runs", queue)
    eventually(lambda: team.running() == ["runs"], "it runs")
    assert is_gated(team.pod("waits", queue))
    eventually(lambda: backlog(controller, team) == {"waits": 4}, "its slices are backlog of its index")
    eventually(lambda: on_nodes(controller, team) == 4, "only what runs takes slices of a node")
    team.api.delete("Pod", "runs", team.namespace)
    eventually(lambda: team.running() == ["waits"], "Kueue lets it go")
    eventually(lambda: on_nodes(controller, team) == 4, "and it takes them then")


@pytest.mark.parametrize("controller", ["quotas: {namespaces: {NAMESPACE: {maxPods: 1}}}"], indirect=True)
def test_a_pod_that_kueue_holds_back_counts_in_a_quota_of_ours(controller, team):
    queue = team.queue(1)
    assert is_gated(team.pod("waits", queue))
    with pytest.raises(ApiError, match=r"quota of namespace .* 1 of 1 pods"):
        team.pod("over", queue)


def test_a_cohort_lends_and_takes_back(controller, team):
    lender, borrower = (team.queue(4, cohortName=f"{team.namespace}", preemption=PREEMPT) for _ in range(2))
    for number in range(3):
        team.pod(f"borrower-{number}", borrower)
    eventually(lambda: len(team.running()) == 2, "it borrows what the other one leaves")
    team.pod("owner", lender)
    eventually(lambda: "owner" in team.running(), "the other one takes it back")
    eventually(lambda: len(team.running()) == 2, "and the borrower has its own share")
    eventually(lambda: on_nodes(controller, team) == 8, "the ledger counts those that run")


class Run:
    """Ends each pod that runs; keeps what was seen of the pods, of Kueue's line and of the ledger."""

    def __init__(self, controller, team):
        self.most_let_go = self.most_on_nodes = 0
        self.ran = set()
        self.times = {}
        """When Kueue took up each pod, and when it reserved its quota, by name."""
        self._controller, self._team = controller, team

    def step(self):
        """Look, and end the pods that run."""
        self.most_let_go = max(self.most_let_go, len(let_go(self._team)))
        self.most_on_nodes = max(self.most_on_nodes, on_nodes(self._controller, self._team))
        running = self._team.running()
        self.times |= reservations(self._team)
        self.ran.update(running)
        for name in running:
            self._team.api.delete("Pod", name, self._team.namespace)

    @property
    def passed(self):
        """Pods that Kueue let pass an earlier one, by its times, which are whole seconds."""
        last, found = "", []
        by_age = groupby(sorted(self.times.items(), key=itemgetter(1)), key=lambda each: each[1][0])
        for _, group in by_age:
            of_a_second = [(reserved, name) for name, (_, reserved) in group]
            found += [name for reserved, name in of_a_second if reserved < last]
            last = max(last, *(reserved for reserved, _ in of_a_second))
        return found


def reservations(team):
    """By pod: when its Workload was created, and when its quota was reserved."""
    found = {}
    for each in team.api.list("Workload", team.namespace, KUEUE):
        conditions = {one["type"]: one for one in each.get("status", {}).get("conditions", ())}
        if conditions.get("QuotaReserved", {}).get("status") == "True":
            [owner] = each["metadata"]["ownerReferences"]
            reserved = conditions["QuotaReserved"]["lastTransitionTime"]
            found[owner["name"]] = each["metadata"]["creationTimestamp"], reserved
    return found


@pytest.mark.timeout(1800, func_only=True)
def test_many_pods_run_ten_at_a_time_in_order_and_none_is_lost(controller, team):
    queue = team.queue(MOST, queueingStrategy="StrictFIFO")
    expected = {f"pod-{number:03}" for number in range(PODS)}
    for name in sorted(expected):
        team.pod(name, queue, "0.125")
    eventually(lambda: len(let_go(team)) == MOST, "the quota is full")
    run = Run(controller, team)

    def has_ended():
        run.step()
        return run.ran == expected

    eventually(has_ended, "every pod has run", seconds=60 + 4 * PODS)
    assert (run.most_let_go, run.most_on_nodes) == (MOST, MOST)
    assert (run.times.keys(), run.passed) == (expected, [])
    eventually(
        lambda: (on_nodes(controller, team), backlog(controller, team)) == (0, {}), "all is free again"
    )
