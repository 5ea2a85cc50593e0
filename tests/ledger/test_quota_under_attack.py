"""A quota holds in whatever order honest, copied, forged and repeated reviews and restarts come."""

from dataclasses import dataclass, replace

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger.ledger import Ledger
from ledger.placement_request import Placement, PlacementRequest, Quota
from modes.facts import PodFact
from tests.effort import by_turns, examples
from tests.ledger.cluster import eighths, gpu_node, holder

LIMIT, EIGHTH_MIB = 8, 10240
QUOTAS = (
    Quota("namespace", "team", memory_mib=LIMIT * EIGHTH_MIB),
    Quota("queue", "q", slices=LIMIT - 2, keys=("q", "#id"), namespaces=("team",)),
)
QUEUES = [(), (), ("q",), ("#id",), ("q", "#id")]
NAMES = [f"pod-{number}" for number in range(12)]


@dataclass(frozen=True)
class Made:
    """A pod as a review has left it."""

    name: str
    slices: int
    placement: Placement
    queues: tuple[str, ...]
    reviewed_again: bool = False

    @property
    def fact(self) -> PodFact:
        gpus = [(index, self.slices) for index in self.placement.indices]
        node, name = self.placement.node, self.placement.reservation
        known = {"namespace": "team", "reservation": name, "promised_node": node, "queues": self.queues}
        return holder(self.name, None, *gpus, **known)


class QuotaUnderAttack(RuleBasedStateMachine):
    """An API server, tenants, a watch that lags, and a ledger that is lost now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[Made] = []
        self.created: dict[str, Made] = {}
        self.unseen: list[PodFact | str] = []
        self.now = 0.0
        self.reviews = 0
        self.ledger = self._new_ledger()

    def _new_ledger(self) -> Ledger:
        ledger = Ledger()
        for name in ("a", "b"):
            ledger.set_node(gpu_node(name, 2))
        return ledger

    def _review(self, name: str, slices: int, queues: tuple[str, ...], **changes: object) -> Placement | None:
        self.reviews += 1
        quotas = QUOTAS if queues else QUOTAS[:1]
        known = {"namespace": "team", "pod": name, "queues": queues, "quotas": quotas}
        known["reservation"] = f"review-{self.reviews}"
        request: PlacementRequest = eighths(slices, **(known | changes))
        answer = self.ledger.place(request, self.now)
        return answer if isinstance(answer, Placement) else None

    @rule(name=st.sampled_from(NAMES), slices=st.integers(1, 3), queues=st.sampled_from(QUEUES))
    def tenant_creates_a_pod(self, name: str, slices: int, queues: tuple[str, ...]) -> None:
        self._first_review(name, slices, queues)

    def _first_review(self, name: str, slices: int, queues: tuple[str, ...]) -> None:
        placement = self._review(name, slices, queues)
        if placement is not None:
            self.under_way.append(Made(name, slices, placement, queues))

    @rule(data=st.data(), name=st.sampled_from(NAMES), keeps_name=st.booleans())
    @precondition(lambda self: self.under_way or self.created)
    def tenant_copies_a_pod(self, data: st.DataObject, name: str, *, keeps_name: bool) -> None:
        """Of his own or of another, created or still under way, with all that is written on it."""
        made = data.draw(st.sampled_from([*self.under_way, *self.created.values()]))
        self._second_review(replace(made, name=made.name if keeps_name else name, reviewed_again=False))

    @rule(data=st.data(), count=st.integers(2, LIMIT + 2), is_copied=st.booleans())
    @precondition(lambda self: self.under_way or self.created)
    def tenant_creates_many_at_once(self, data: st.DataObject, count: int, *, is_copied: bool) -> None:
        """All are reviewed, then stored, before the watch tells of any; it tells of others meanwhile."""
        made = data.draw(st.sampled_from([*self.under_way, *self.created.values()]))
        others, start = [each.fact for each in self.created.values()], len(self.under_way)
        for number in range(count):
            for fact in others if not self.unseen else ():
                node = "a" if number % 2 else "b"
                self.ledger.set_pod(msgspec.structs.replace(fact, node=node, promised_node=None))
            name = f"many-{self.reviews}-{number}"
            if is_copied:
                self._second_review(replace(made, name=name))
            else:
                self._first_review(name, 1, made.queues)
        stored, self.under_way = self.under_way[start:], self.under_way[:start]
        for each in stored:
            self._store(each)

    @rule(data=st.data(), index=st.integers(0, 9), reservation=st.sampled_from([None, "made-up", "review-1"]))
    @precondition(lambda self: self.under_way or self.created)
    def tenant_forges_a_pod(self, data: st.DataObject, index: int, reservation: str | None) -> None:
        made = data.draw(st.sampled_from([*self.under_way, *self.created.values()]))
        brings = Placement((index,), 81920, ("81920",), reservation=reservation)
        self._second_review(replace(made, name=f"forged-{self.reviews}", placement=brings))

    @rule(data=st.data())
    @precondition(lambda self: any(not made.reviewed_again for made in self.under_way))
    def webhook_is_called_again(self, data: st.DataObject) -> None:
        made = data.draw(st.sampled_from([made for made in self.under_way if not made.reviewed_again]))
        self.under_way.remove(made)
        self._second_review(replace(made, reviewed_again=True))

    @rule(name=st.sampled_from(NAMES), slices=st.integers(1, 3), queues=st.sampled_from(QUEUES))
    def dry_run(self, name: str, slices: int, queues: tuple[str, ...]) -> None:
        self._review(name, slices, queues, reservation=None)

    def _second_review(self, made: Made) -> None:
        placement = self._review(made.name, made.slices, made.queues, existing=made.placement)
        if placement is not None:
            self.under_way.append(replace(made, placement=placement))

    @rule(data=st.data(), is_refused=st.sampled_from([False, False, True]))
    @precondition(lambda self: self.under_way)
    def api_server_stores_it_or_refuses_it(self, data: st.DataObject, *, is_refused: bool) -> None:
        made = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(made)
        if not is_refused:
            self._store(made)

    def _store(self, made: Made) -> None:
        if made.name not in self.created:
            self.created[made.name] = made
            self.unseen.append(made.fact)

    @rule(count=st.integers(1, 20))
    def watch_delivers(self, count: int) -> None:
        delivered, self.unseen = self.unseen[:count], self.unseen[count:]
        for event in delivered:
            if isinstance(event, str):
                self.ledger.remove_pod(("team", event))
            else:
                self.ledger.set_pod(event)

    @rule(data=st.data(), node=st.sampled_from(["a", "b"]))
    @precondition(lambda self: self.created)
    def pod_gets_a_node(self, data: st.DataObject, node: str) -> None:
        made = self.created[data.draw(st.sampled_from(sorted(self.created)))]
        self.unseen.append(msgspec.structs.replace(made.fact, node=node, promised_node=None))

    @rule(data=st.data())
    @precondition(lambda self: self.created)
    def pod_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.created)))
        del self.created[name]
        self.unseen.append(name)

    @rule(seconds=st.sampled_from([0.1, 5.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        """A creation that takes longer than 5 s is none of ours, and the watch lags less than that."""
        if seconds > 1:
            self.watch_delivers(len(self.unseen))
            self.under_way.clear()
        self.now += seconds

    @rule()
    def controller_starts_again(self) -> None:
        """It lists what is there; what was under way is reviewed again, or was not created."""
        self.unseen.clear()
        self.ledger = self._new_ledger()
        for made in self.created.values():
            self.ledger.set_pod(made.fact)
        again, self.under_way = self.under_way, []
        for made in again:
            self._second_review(made)

    @invariant()
    def no_quota_is_passed(self) -> None:
        assert sum(made.slices for made in self.created.values() if made.queues) <= LIMIT - 2
        assert sum(made.slices for made in self.created.values()) <= LIMIT


TestQuotaUnderAttack = QuotaUnderAttack.TestCase
TestQuotaUnderAttack.settings = settings(
    max_examples=examples(by_turns("ledger", usual=120, full=200)), stateful_step_count=40
)
