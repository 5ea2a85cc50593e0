"""The ledger kept by events is the ledger made from the list, whatever happened on the way."""

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest
from ledger.reservations import Reservation
from modes.facts import NodeFact, PodFact, PodKey
from tests.effort import examples
from tests.ledger.cluster import changed, gpu_node
from tests.ledger.snapshot import books
from tests.ledger.strategies import NODE_NAMES, asks, nodes, pods

MOST_RESERVATIONS = 2


def rebuilt(
    listed_nodes: dict[str, NodeFact], listed_pods: dict[PodKey, PodFact], like: Ledger, now: float
) -> Ledger:
    """A new ledger from the final list, given the reservations that the other one has left."""
    ledger = Ledger()
    ledger.replace(listed_nodes.values(), listed_pods.values())
    for reservation in like._reservations._by_name.values():
        ledger._begin(reservation)
    ledger.expire(now)
    return ledger


class LedgerLife(RuleBasedStateMachine):
    """Events, lost events followed by a relist, placements and time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(MOST_RESERVATIONS)
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[PodKey, PodFact] = {}
        self.now = 0.0
        self.in_step = True
        # Most nodes that are drawn have no room for most requests.
        for name in NODE_NAMES[:2]:
            self.nodes[name] = gpu_node(name, 4)
            self.ledger.set_node(self.nodes[name])

    @rule(node=nodes(), lost=st.sampled_from([False, False, False, True]))
    def node_changes(self, node: NodeFact, *, lost: bool) -> None:
        self.nodes[node.name] = node
        self._event(lambda: self.ledger.set_node(node), lost=lost)

    @rule(name=st.sampled_from(NODE_NAMES), lost=st.sampled_from([False, False, True]))
    def node_goes(self, name: str, *, lost: bool) -> None:
        self.nodes.pop(name, None)
        self._event(lambda: self.ledger.remove_node(name), lost=lost)

    @rule(pod=pods(), lost=st.sampled_from([False, False, False, True]))
    def pod_changes(self, pod: PodFact, *, lost: bool) -> None:
        self.pods[pod.key] = pod
        self._event(lambda: self.ledger.set_pod(pod), lost=lost)

    @rule(data=st.data(), lost=st.sampled_from([False, False, True]))
    @precondition(lambda self: self.pods)
    def pod_goes(self, data: st.DataObject, *, lost: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.pods)))
        del self.pods[key]
        self._event(lambda: self.ledger.remove_pod(key), lost=lost)

    @rule()
    def watch_starts_again(self) -> None:
        self.ledger.replace(self.nodes.values(), self.pods.values())
        self.in_step = True

    @rule(seconds=st.sampled_from([1.0, 4.0, 20.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.ledger.expire(self.now)
        assert all(r.expires_at > self.now for r in self.ledger._reservations._by_name.values())

    @rule(request=asks, name=st.sampled_from([None, "r-0", "r-1", "r-2", "r-3"]))
    def pod_is_admitted(self, request: PlacementRequest, name: str | None) -> None:
        if name is not None:
            self.ledger.release(name)
        before, former = books(self.ledger), self._reserved()
        request = changed(request, reservation=name)
        answer = self.ledger.place(request, self.now)
        if not isinstance(answer, Placement) or name is None or answer.reservation is None:
            assert books(self.ledger) == before
        else:
            now = self._reserved()
            ended = [each for each in former.values() if each.name not in now]
            assert len(ended) <= (len(former) == MOST_RESERVATIONS)
            self._assert_undone(now[name], ended, before)

    @invariant()
    def it_equals_the_one_made_from_the_list(self) -> None:
        if self.in_step:
            assert books(self.ledger) == books(rebuilt(self.nodes, self.pods, self.ledger, self.now))

    def _event(self, tell: Callable[[], None], *, lost: bool) -> None:
        if lost:
            self.in_step = False
            return
        tell()
        once = books(self.ledger)
        tell()
        assert books(self.ledger) == once

    def _reserved(self) -> dict[str, Reservation]:
        return dict(self.ledger._reservations._by_name)

    def _assert_undone(
        self, reservation: Reservation, ended: list[Reservation], before: dict[str, object]
    ) -> None:
        """Releasing a reservation, and those back that ended for it, leaves the ledger as it was."""
        self.ledger.release(reservation.name)
        for each in ended:
            self.ledger._begin(each)
        assert books(self.ledger) == before
        for each in ended:
            self.ledger.release(each.name)
        self.ledger._begin(reservation)


TestLedgerLife = LedgerLife.TestCase
TestLedgerLife.settings = settings(max_examples=examples(80), stateful_step_count=25)
