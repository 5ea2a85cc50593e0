"""One made-up cluster, and what happens to it: asks, events that come late or twice, lists, time."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from controller.placement_api import ControllerApi
from controller.pods.pending_pod import StoredPod
from controller.pods.pod_demands import PodDemands
from controller.publish.gpu_ledger import status_of
from controller.publish.ledger_stream import backlog_json, ledger_json
from controller.publish.metrics import ControllerMetrics
from controller.publish.page import WaitingReasons
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenPod
from ledger.messages import Answers, Batch, LedgerReply, NodeState, StreamEvent, read_request
from ledger.placement_request import Placement, PlacementRequest
from ledger.reservations import LIFETIME_SECONDS
from tests.ledger.snapshot import books
from tests.ledger.test_ledger import rebuilt
from tests.long.campaign.controller import asks, cluster
from tests.long.campaign.controller.cluster import Object
from tests.long.campaign.controller.invariants import (
    MOST_BYTES,
    FoundError,
    Granted,
    check_capacity,
    check_quota,
    difference,
    footprint,
)
from tests.long.campaign.controller.watched_objects import NAMES, WatchedObjects
from tests.long.campaign.line_counts import LineCount

HAPPENINGS = (
    ("ask", 30),
    ("pod_shows_up", 14),
    ("pod_changes", 18),
    ("stray_pod", 6),
    ("node_changes", 6),
    ("agent_speaks", 3),
    ("event_comes_late", 3),
    ("event_is_lost", 1),
    ("list_again", 1),
    ("broken_event", 1),
    ("time_passes", 6),
    ("look", 2),
)
"""What can happen, and how often."""
MOST_LINES = 400_000
"""Lines of Python that one batch of asks, or one event, may run in a cluster of a few nodes."""
MOST_PODS = 60


class Epoch(WatchedObjects):
    """A cluster from its first node to its end. `step` gives how many decisions were made."""

    def __init__(self, dice: random.Random, loop: asyncio.AbstractEventLoop, counts: Counter[str]) -> None:
        self.now = 0.0
        super().__init__(LedgerStore(lambda: self.now), loop)
        self.dice, self._counts = dice, counts
        leadership: Any = SimpleNamespace(leads=True, leader="https://a:1", transition=1)
        self._api = ControllerApi(self.store, leadership, ControllerMetrics(CollectorRegistry()))
        self.reasons = WaitingReasons(self.store, NAMES, self._demands, clock=lambda: self.now)
        self._granted: dict[str, Granted] = {}
        self._number = 0
        for name in asks.NODES[: dice.randint(2, len(asks.NODES))]:
            self._set("nodes", cluster.node(name, dice), "ADDED")
        for name in self._objects:
            self._list(name)

    async def _demands(self, pod: SeenPod) -> PodDemands | None:
        """Return what a pod demands of its node, as it is stored; None where it cannot be read."""
        try:
            stored = msgspec.convert(self._objects["pods"].get(pod.fact.key), StoredPod)
            return PodDemands(stored.constraints)
        except msgspec.ValidationError:
            return None

    # What can happen.

    def step(self) -> int:
        """Let something happen; return the decisions that it took."""
        name = self.dice.choices([each for each, _ in HAPPENINGS], [weight for _, weight in HAPPENINGS])[0]
        happen: Callable[[], int] = getattr(self, f"_{name}")
        self._counts[name] += 1
        if self.dice.random() < 0.01:
            with LineCount() as lines:
                made = happen()
            if lines.total > MOST_LINES:
                raise FoundError(f"{lines.total} lines for {name}")
            return made
        return happen()

    def _ask(self) -> int:
        dice = self.dice
        requests = [asks.ask(dice, self._reservation()) for _ in range(dice.choice((1, 1, 2, 4)))]
        raw = [asks.raw(each, dice) for each in requests]
        releases = [dice.choice(list(self._granted) or ["none"])] if dice.random() < 0.05 else []
        self.last = raw, releases
        before = self._before(raw, releases)
        live = {name: each for name, each in self._young().items() if name not in releases}
        batch = Batch([msgspec.Raw(each) for each in raw], releases)
        answers = self._loop.run_until_complete(self._api._decide(batch))
        if answers is None:
            raise FoundError("a leader that does not answer")
        if msgspec.json.decode(msgspec.json.encode(Answers(answers)), type=Answers).answers != answers:
            raise FoundError("answers that do not read as they were written")
        for data, answered in zip(raw, answers, strict=True):
            self._counts[_kind_of(answered)] += 1
            if "internal" in (answered.refused or ""):
                raise FoundError(answered.refused)
            if answered.refused is None:
                self._check(read_request(msgspec.Raw(data)), answered.answer(), live)
        if before is not None and books(self.store.ledger) != before:
            raise FoundError("a dry run, or a pod without a place, has changed the books")
        return len(raw)

    def _before(self, raw: list[bytes], releases: list[str]) -> Any:
        """The books before a dry run, of one in ten."""
        if releases or any(map(_reserves, raw)) or self.dice.random() > 0.1:
            return None
        self.store.expire()
        return books(self.store.ledger)

    def _pod_shows_up(self) -> int:
        """A pod that was promised a place; in one of ten there is a copy, or something else in it."""
        dice = self.dice
        if not self._granted or len(self._objects["pods"]) > MOST_PODS:
            return self._pod_changes()
        name = dice.choice(list(self._granted))
        found = self._granted[name]
        if dice.random() < 0.9:
            del self._granted[name]
        else:
            found.at = -math.inf  # whatever is reserved by that name later is another's
        self._number += 1
        made = cluster.pod_of(
            f"{found.request.accounting.namespace}-{self._number}", found.request, found.placement, dice
        )
        if dice.random() < 0.1:
            made = cluster.damaged(made, dice)
        return self._set("pods", made, "ADDED")

    def _pod_changes(self) -> int:
        """A pod is bound, ends, is deleted, once or twice, or is changed anywhere."""
        dice, pods = self.dice, self._objects["pods"]
        if not pods:
            return self._stray_pod()
        key = dice.choice(list(pods))
        found = msgspec.json.decode(msgspec.json.encode(pods[key]))
        kind = dice.random()
        if kind < 0.35 or len(pods) > MOST_PODS:
            self._drop("pods", key)
            return 1 + (self._drop("pods", key) if dice.random() < 0.1 else 0)
        if kind < 0.7 and isinstance(found.get("spec"), dict):
            self._bind(found)
        elif kind < 0.9:
            found["status"] = {"phase": dice.choice(["Running", "Succeeded", "Failed"])}
        else:
            found = cluster.damaged(found, dice)
        return self._set("pods", found, "MODIFIED")

    def _bind(self, found: Object) -> None:
        """Bind a pod to the node that it was promised, where it has one and is lucky."""
        seen = self.store.pods.get((found["metadata"].get("namespace", ""), found["metadata"]["name"]))
        promised = seen.fact.promised_node if seen is not None else None
        nodes = [name for _, name in self._objects["nodes"]] or ["nowhere"]
        found["spec"]["nodeName"] = (
            promised if promised and self.dice.random() < 0.8 else self.dice.choice(nodes)
        )
        found["status"] = {"phase": "Running"}

    def _stray_pod(self) -> int:
        if len(self._objects["pods"]) > MOST_PODS:
            return self._pod_changes()
        self._number += 1
        namespace = self.dice.choice(asks.NAMESPACES)
        nodes = [name for _, name in self._objects["nodes"]]
        made = cluster.stray_pod(f"{namespace}-{self._number}", namespace, nodes, self.dice)
        return self._set(
            "pods", cluster.damaged(made, self.dice) if self.dice.random() < 0.2 else made, "ADDED"
        )

    def _node_changes(self) -> int:
        dice = self.dice
        name = dice.choice(asks.NODES)
        if dice.random() < 0.2 and ("", name) in self._objects["nodes"]:
            self._drop("nodes", ("", name))
            return 1 + (self._drop("nodes", ("", name)) if dice.random() < 0.2 else 0)
        made = cluster.node(name, dice)
        return self._set("nodes", cluster.damaged(made, dice) if dice.random() < 0.2 else made, "MODIFIED")

    def _agent_speaks(self) -> int:
        dice = self.dice
        name = dice.choice(asks.NODES)
        if dice.random() < 0.3:
            return self._drop("gpunodes", ("", name))
        made = cluster.gpu_node(name, dice)
        return self._set("gpunodes", cluster.damaged(made, dice) if dice.random() < 0.3 else made, "MODIFIED")

    def _event_comes_late(self) -> int:
        if not self._late:
            return 0
        name, line = self.dice.choice(self._late)
        self._is_known[name] = False
        return self._take(name, line)

    def _event_is_lost(self) -> int:
        name = self.dice.choice(list(self._objects))
        if self._objects[name]:
            del self._objects[name][self.dice.choice(list(self._objects[name]))]
            self._is_known[name] = False
        return 0

    def _list_again(self) -> int:
        name = self.dice.choice(list(self._objects))
        self._list(name)
        return len(self._objects[name])

    def _broken_event(self) -> int:
        """A line that is no event, or that says that the version is forgotten: all is listed again."""
        name = self.dice.choice(list(self._objects))
        lines = [
            b'{"type":"ERROR","object":{"kind":"Status","message":"too old","code":410}}',
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}',
            b'{"type":"MODIFIED"}',
            b'{"type":"x","object":{"metadata":{"name":"n0"}}}',
            b"{",
            b"\xff",
            b"[]",
        ]
        self._is_known[name] = False
        return self._take(name, self.dice.choice(lines))

    def _time_passes(self) -> int:
        self.now += self.dice.choice([0.1, 1.0, 4.0, 6.0, 20.0, 31.0])
        while self.store.expire():
            pass
        self._granted = {
            name: each for name, each in self._granted.items() if self.store.ledger.is_reserved(name)
        }
        return 0

    def _look(self) -> int:
        """Everything that shows the ledger can be made, and read."""
        store = self.store
        for name in store.nodes:
            state = store.node_state(name)
            if state is None:
                continue
            if msgspec.json.decode(msgspec.json.encode(state), type=NodeState) != state:
                raise FoundError(f"a node's state does not read as it was written: {state}")
            msgspec.json.encode(status_of(state.view, 1, "2026-01-01T00:00:00Z", ()))
        self._loop.run_until_complete(self._look_at_all())
        return 1

    async def _look_at_all(self) -> None:
        whole = b"".join([part async for part in ledger_json(self.store, None, 1)])
        msgspec.json.decode(whole, type=LedgerReply)
        msgspec.json.decode(await backlog_json(self.store), type=StreamEvent)
        for waiting in self.store.ledger.view().backlog[:5]:
            why = await self.reasons.of(waiting)
            text = f"{why.cause} {why.text}"
            if not why.cause or len(text) > 4000 or "\n" in text:
                raise FoundError(f"why a pod waits: {text!r}")

    # What must hold.

    def check(self) -> None:
        """Compare the ledger with one that is made of lists."""
        store, ledger = self.store, self.store.ledger
        ledger.expire(self.now)
        facts = {name: each.fact for name, each in store.nodes.items()}
        pods = {key: each.fact for key, each in store.pods.items()}
        kept, listed = books(ledger), books(rebuilt(facts, pods, ledger, self.now))
        if kept != listed:
            found = difference(kept, listed)
            raise FoundError(f"the ledger kept by events is not the one made of lists: {found}")
        for name, known in (("pods", pods), ("nodes", facts)):
            if self._is_known[name]:
                self._check_known(name, known)

    def _check_known(self, name: str, known: dict[Any, Any]) -> None:
        page = msgspec.json.encode({"items": list(self._objects[name].values()), "metadata": {}})
        items = list(self._readers[name].read_list(page)[0])
        if name == "pods":
            expected = {each.fact.key: each.fact for each in items}
            if expected != known:
                raise FoundError("pods of the store are not those of the API server")
        elif {each.fact.name for each in items} != set(known):
            raise FoundError("nodes of the store are not those of the API server")

    def end(self) -> int:
        """Take everything away; return the bytes of what the ledger still knows: what it has learnt."""
        for name, objects in self._objects.items():
            for key in list(objects):
                self._drop(name, key)
            self._list(name)
        for _ in range(3):
            self.now += 60.0
            while self.store.expire():
                pass
        left = {name: found for name, found in books(self.store.ledger).items() if found}
        left.pop("backlog")
        if any(value for value in left.values() if value not in ({}, ({}, {}), [])):
            raise FoundError(f"of an empty cluster is left: {str(left)[:500]}")
        size = footprint(self.store.ledger)
        if size > MOST_BYTES:
            raise FoundError(f"the ledger of an empty cluster holds {size} bytes")
        return size

    def _check(self, request: PlacementRequest, answer: object, live: dict[str, Granted]) -> None:
        """Check one placement against what holders and live promises have taken, added up here."""
        # What was reserved under the same name is given back first.
        live.pop(request.accounting.reservation or "", None)
        if not isinstance(answer, Placement) or request.accounting.reservation is None:
            return
        if request.demands.existing is not None:
            # What the pod carries is reserved by this name now, and nothing else.
            self._granted.pop(request.accounting.reservation, None)
            return
        allocated = request.share.allocated(answer)
        if answer.node is not None:
            check_capacity(self.store, allocated, live)
        for quota in request.accounting.quotas:
            if quota == asks.QUOTAS.get(request.accounting.namespace) and answer.instance is None:
                check_quota(self.store, request.accounting.namespace, allocated.share.slices, live)
        if answer.reservation is not None:
            live[answer.reservation] = self._granted[answer.reservation] = Granted(request, answer, self.now)

    def _young(self) -> dict[str, Granted]:
        """Promises that quotas still count."""
        ledger = self.store.ledger
        return {
            name: each
            for name, each in self._granted.items()
            if self.now - each.at < LIFETIME_SECONDS - 0.01 and ledger._reservations.get(name) is not None
        }

    # How it is printed.

    def _reservation(self) -> str | None:
        if self.dice.random() < 0.2:
            return None
        if self._granted and self.dice.random() < 0.05:
            return self.dice.choice(list(self._granted))
        return f"{self.dice.getrandbits(64):016x}"


def _reserves(raw: bytes) -> bool:
    """Whether a request, damaged or not, names a reservation."""
    found = msgspec.json.decode(raw)
    accounting = found.get("accounting") if isinstance(found, dict) else None
    return isinstance(accounting, dict) and accounting.get("reservation") is not None


def _kind_of(answered: Any) -> str:
    return next(name for name in answered.__struct_fields__ if getattr(answered, name) is not None)
