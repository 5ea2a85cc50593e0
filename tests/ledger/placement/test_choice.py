"""The fast placement finds what a plain scan finds."""

import os
import random

import pytest

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Constraints, Taint, Toleration
from ledger.ledger import Ledger
from ledger.placement_request import Assumption, Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact, PodFact, PodKey
from modes.fraction import Fraction
from tests.effort import by_turns
from tests.ledger.cluster import GIB, changed, eighths, gpu_node, holder, ledger_of, placed, request_of
from tests.ledger.oracle import assert_right

RUNS = by_turns("ledger", usual=2, full=20)
STATES = int(os.environ.get("LEDGER_RANDOM_STATES", 500 * RUNS))
TAINT = Taint("nvidia.com/gpu", "NoSchedule")
OWNERS = [f"owner-{number}" for number in range(20)]


class Churn:
    """A cluster under a random sequence of everything that may happen."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a repeatable experiment
        self.nodes = {f"n{i}": self._node(f"n{i}") for i in range(self.rng.randint(3, 14))}
        self.pods: dict[PodKey, PodFact] = {}
        self.ledger = Ledger()
        self.ledger.replace(self.nodes.values(), [])

    def _node(self, name: str) -> NodeFact:
        shapes = [(8, 64000), (8, 32000), (4, 16000), (2, 48000), (1, 3000)]
        gpus, cpu = self.rng.choice(shapes)
        node = gpu_node(
            name,
            gpus,
            self.rng.choice([16384, 81920]),
            cpu_milli=cpu,
            memory_bytes=gpus * 40 * GIB,
            taints=self.rng.choice([(), (), (TAINT,)]),
            usable=self.rng.random() < 0.9,
            cordoned=self.rng.choice([frozenset(), frozenset(), frozenset({0})]),
        )
        node.labels["zone"] = self.rng.choice("ab")
        return node

    def request(self) -> PlacementRequest:
        slices = self.rng.choice([1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 16, 32, 64])
        cpu = self.rng.choice([0, 500, 1000, 4000, 9000]) * max(1, slices // 8)
        owner, place = self.rng.choice(["", *OWNERS]), self.rng.choice(["pack", "pack", "spread"])
        memory = self.rng.choice([0, 5, 30]) * GIB
        constraints = Constraints(
            self.rng.choice([{}, {}, {"zone": "a"}]),
            tolerations=self.rng.choice([(), (Toleration(operator="Exists"),)]),
            node_name=self.rng.choice([None] * 9 + ["n0"]),
        )
        sizes = {"cpu_milli": cpu, "memory_bytes": memory}
        asked = eighths(slices, owner=owner, place=place, constraints=constraints, **sizes)
        if slices >= 8 or self.rng.random() < 0.5:
            return asked
        fraction = asked.share.fraction.on_each_of(self.rng.choice([2, 2, 3, 4]))
        return changed(asked, fraction=fraction)

    def place(self) -> None:
        request = self.request()
        self.compare_with_scan(request)
        answer = self.ledger.place(request, 0.0)
        assert_right(answer, request, self.nodes.values(), self.pods.values())
        self.ledger._learn(request, request.share)
        if isinstance(answer, Placement) and answer.node is not None:
            gpus = tuple((index, request.share.fraction.slices_on_each) for index in answer.indices)
            sizes = {
                "cpu_milli": request.share.cpu_milli,
                "memory_bytes": request.share.memory_bytes,
                "owner": request.accounting.owner,
            }
            pod = holder(f"p{self.rng.random()}", answer.node, *gpus, **sizes)
            self.pods[pod.key] = pod
            self.ledger.set_pod(pod)

    def compare_with_scan(self, request: PlacementRequest) -> None:
        """The best of all groups is the best of all nodes."""
        candidates = self.ledger._finder.select(request)
        nodes = filter(candidates.holds, self.ledger._node_index.accounts.values())
        scores = [candidates.score(node, request) for node in nodes]
        found = candidates.best(request)
        known = [score for score in scores if score is not None]
        assert (found[0] if found is not None else None) == max(known, default=None)

    def release(self) -> None:
        if self.pods:
            key = self.rng.choice(sorted(self.pods))
            del self.pods[key]
            self.ledger.remove_pod(key)

    def change_node(self) -> None:
        node = self._node(self.rng.choice(sorted(self.nodes)))
        self.nodes[node.name] = node
        self.ledger.set_node(node)


@pytest.mark.parametrize("seed", range(RUNS))
def test_in_thousands_of_states_the_node_has_room_and_the_best_score(seed: int) -> None:
    churn = Churn(seed)
    for _ in range(STATES // RUNS):
        churn.place()
        for _ in range(churn.rng.choice([0, 0, 1, 1, 1, 2])):
            churn.release()
        if churn.rng.random() < 0.02:
            churn.change_node()


def test_values_of_the_memory_label_whose_share_is_the_same_are_all_named_by_number() -> None:
    ledger = ledger_of(gpu_node("a", mib=16384), gpu_node("b", mib=16390), gpu_node("c", mib=9000))
    answer = ledger.place(eighths(1, constraints=Constraints({"kubernetes.io/hostname": "a"})), 0.0)
    assert answer == Placement((0,), 16384, ("16384", "16390"), "a")


@pytest.mark.parametrize(
    "change", [{"gpus": ((0, 0), (1, 3))}, {"gpus": ((0, 0), (1, 0)), "slices_per_gpu": 0}]
)
def test_a_node_without_room_now_is_waited_for_and_never_unschedulable(change: dict[str, object]) -> None:
    ledger = ledger_of(gpu_node("a", **change))
    answer = placed(ledger, eighths(4))
    assert (answer.node, answer.gpu_mib, answer.memory_values) == (None, 81920, ("81920",))


def test_a_pod_that_no_node_could_hold_is_placed_on_an_assumed_one() -> None:
    assume = Assumption(gpus_per_node=2, gpu_mib=16384)
    ledger = Ledger()
    first = ledger.place(eighths(4, assume=assume, reservation="r"), 0.0)
    assert first == Placement((0,), 16384, (), None, "r", degraded=True)
    assert ledger.place(eighths(4, assume=assume), 0.0) == Placement(
        (1,), 16384, (), None, None, degraded=True
    )
    assert ledger.place(eighths(32, assume=assume), 0.0) == Unschedulable(
        "there is no node yet: ask the admin to add nodes, or to set assume in the policy"
    )


def test_pods_that_differ_only_in_their_containers_slices_are_looked_for_apart() -> None:
    holders = holder("p", "a", (0, 4), (1, 4)), holder("q", "b", (0, 1), (1, 7))
    ledger = ledger_of(gpu_node("a"), gpu_node("b"), holders=holders)
    for split, node in (((4, 4), "a"), ((7, 1), "b"), ((4, 4), "a")):
        fraction = Fraction(8, 8).shared_by([Fraction(slices, 8) for slices in split])
        answer = ledger.place(request_of(fraction, any_gpu=True), 0.0)
        assert (answer.node, answer.containers) == (node, (0, 1))


def test_replicas_of_an_owner_keep_to_a_node_whose_cards_have_a_model_that_no_label_names() -> None:
    for gpu_mib, models in ((16390, ("A100", "A100")), (None, ("A100", "A100")), (None, ())):
        labels = {GPU_MEMORY_LABEL: str(gpu_mib)} if gpu_mib else {GPU_PRODUCT_LABEL: "A100"}
        labels["kubernetes.io/hostname"] = "n"
        cards = {"cards": ((0, 16384), (1, 16384)), "card_models": models}
        node = gpu_node("n", gpu_mib=gpu_mib, labels=labels, **cards)
        ledger = ledger_of(node)
        ledger.set_pod(holder("one", "n", (0, 1), owner="train"))
        request = changed(eighths(1), owner="train", same_model=True, writes_limits=gpu_mib is not None)
        answer = placed(ledger, request)
        assert answer.node == "n"


def test_a_pod_that_takes_no_gpu_says_nothing_of_its_owners_model() -> None:
    full = holder("other", "a-small", (0, 8), (1, 8))
    ledger = ledger_of(gpu_node("a-small", mib=16384), gpu_node("large"), holders=[full])
    ledger.set_pod(holder("idle", "a-small", owner="train"))
    answer = placed(ledger, changed(eighths(4), owner="train", same_model=True))
    assert answer.node == "large"
