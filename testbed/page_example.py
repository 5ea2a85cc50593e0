"""Run with `python -m testbed.page_example SCENE`: the page over a made-up cluster, in one of several states.

Scenes: `empty` (no nodes), `small` (three), `large` (60, with all that the page can show of slices), `cards`
(two nodes whose cards a DRA driver offers), `both` (one of these, and three with slices). Prints its
port once it serves.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvloop

from kube.dra import DRIVER, SHARES_OF_CARD
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.claimed_cards import CardClaim, CardKey, ClaimableCard, ClaimedPart, OfferedSlice
from ledger.ledger import Ledger
from ledger.messages import DenialCount
from ledger.placement_request import Quota
from ledger.use import PodUses, ShareUse, UseKey
from ledger.view import PendingView
from modes.claim_name import NamedShare
from modes.facts import NodeFact, PodFact
from service.http.serving import Listener, serve
from service.http.sockets import bind
from web.page import Page
from web.source import About, Link, LocalSource, NodeNotes, UnlimitedPrograms, WaitingReason

MODELS = (
    ("a100", "NVIDIA-A100-SXM4-80GB", 81920, 28),
    ("h100", "NVIDIA-H100-80GB-HBM3", 81559, 20),
    ("l40s", "NVIDIA-L40S", 46068, 12),
)
QUEUES = ("half-gpu", "nightly", "interactive", "research", "")
TEAMS = ("vision", "speech", "clearml")
CORDONED, UNHEALTHY, HELD, OFF = "a100-03", "h100-05", "a100-07", "l40s-02"
CARD, XID = "NVIDIA-H100-80GB-HBM3", f"{DRIVER}/xid=79"
CLAIMS = (
    ("train", "vision", 0, SHARES_OF_CARD // 2),
    ("notebook", "speech", 0, 62_777),
    ("all", "vision", 1, SHARES_OF_CARD),
)
"""Pod, namespace, number of the card, and share of it."""
DENIALS = (
    DenialCount(
        "label-not-allowed", "speech", 4, 'clearml-injector/fraction "0.5" is not allowed: use 0.500'
    ),
    DenialCount("over-quota", "vision", 2, "over the quota of namespace vision: 400 of 400 slices are used"),
)
ROOM = "needs 8 slices of a GPU on a node with GPUs of 81920 MiB"


class Example:
    """A ledger, and what is known besides.

    Args:
        counts: nodes of each of `MODELS`.
        is_full: whether it has all states.
    """

    def __init__(self, counts: tuple[int, ...], *, is_full: bool) -> None:
        self.source = LocalSource(Ledger())
        self._chance = random.Random(4)  # noqa: S311 the same picture each time
        self._now = datetime.now(UTC)
        self._created: dict[tuple[str, str], str] = {}
        self._uses: dict[str, dict[UseKey, ShareUse]] = {}
        self._is_full = is_full
        for (kind, product, mib, _), count in zip(MODELS, counts, strict=True):
            for number in range(count):
                self._add_node(f"{kind}-{number:02}", product, mib)
        if is_full:
            for number in range(14):
                self._add_waiting(number)

    def with_cards(self, *nodes: str) -> Example:
        """Add nodes with four cards that a DRA driver offers, claims of parts of them, and one that waits."""
        cards = self.source.ledger.cards
        for name in nodes:
            fact = NodeFact(name=name, labels={GPU_PRODUCT_LABEL: CARD})
            self.source.ledger.set_node(fact)
            offered = [
                ClaimableCard(f"gpu-{number}", 81559, model=CARD, taint=XID if number == 3 else "")
                for number in range(4)
            ]
            changed = cards.put_slice(OfferedSlice(name, DRIVER, name, name, cards=tuple(offered)))
            for pod, namespace, number, share in CLAIMS:
                self._created[namespace, pod] = self._ago(600)
                part = ClaimedPart(CardKey(DRIVER, name, f"gpu-{number}"), share=share)
                changed |= cards.put_claim(CardClaim(namespace, f"{pod}-{name}", pod, (part,)))
            self.source.ledger.note_cards(changed)
        waiting = PodFact(namespace="vision", name="eval", claimed=(NamedShare(gpus=2),))
        self.source.ledger.set_pod(waiting)
        return self

    def about(self) -> About:
        """Return what the page shows besides the ledger."""
        if not self._is_full:
            return About(lambda: "standalone webhook", denials=lambda: ())
        return About(
            lambda: "controller, leads",
            lambda namespace, pod: self._created.get((namespace, pod), ""),
            self._why,
            lambda: (Quota("namespace", "vision", 400), Quota("queue", "nightly", 200, 60)),
            lambda: DENIALS,
            lambda: ((UnlimitedPrograms("a100-01", "speech", "notebook-3", "main", 4, 40960),), 1),
            lambda node: PodUses(self._uses.get(node, {})),
            lambda node: NodeNotes(node == HELD, frozenset({6} if node == UNHEALTHY else ())),
            cluster="berlin-1",
            links=(
                Link("Grafana", "https://grafana.example.com/d/gpus"),
                Link("Runbook", "https://runbook.example.com"),
            ),
        )

    def _add_node(self, name: str, product: str, mib: int) -> None:
        lacks = {6} if name == UNHEALTHY else set()
        self.source.ledger.set_node(
            NodeFact(
                name=name,
                labels={GPU_PRODUCT_LABEL: product, GPU_MEMORY_LABEL: f"{mib}"},
                gpus=tuple([(index, 0 if index in lacks else 8) for index in range(8)]),
                slices_per_gpu=8,
                gpu_mib=mib,
                cordoned=frozenset({2, 3} if name == CORDONED else ()),
                usable=name != OFF,
            )
        )
        for index in set(range(8)) - lacks:
            for slices in self._sizes():
                self._add_pod(name, index, slices, mib * slices // 8)

    def _sizes(self) -> Iterator[int]:
        free = 8
        while free > 0 and self._chance.random() < 0.78:
            yield (slices := min(free, self._chance.choice((1, 2, 4, 4, 8))))
            free -= slices

    def _add_pod(self, node: str, index: int, slices: int, mib: int) -> None:
        queue, namespace = self._chance.choice(QUEUES), self._chance.choice(TEAMS)
        name = f"{'clearml-id' if queue else 'notebook'}-{self._chance.randrange(16**6):06x}"
        self.source.ledger.set_pod(
            PodFact(
                namespace=namespace,
                name=name,
                node=node,
                takes=((index, slices),),
                queues=(queue,) if queue else (),
            )
        )
        self._created[namespace, name] = self._ago(self._chance.randrange(60, 300_000))
        if self._chance.random() < 0.9:
            peak = self._chance.randrange(mib)
            busy, since = self._chance.choice((0, 3, 40, 85, 97)), self._ago(7200)
            idle = None if busy else 5400
            use = ShareUse(mib, peak * 2 // 3, peak, peak, busy, since, idle)
            self._uses.setdefault(node, {})[namespace, name, index] = use

    def _add_waiting(self, number: int) -> None:
        namespace, name = TEAMS[number % 2], f"clearml-id-{number:06x}"
        fact = PodFact(namespace=namespace, name=name, takes=((3, 8),), queues=(QUEUES[number % 3],))
        self.source.ledger.set_pod(fact)
        self._created[namespace, name] = self._ago(60 * (number + 1))

    async def _why(self, waiting: PendingView) -> WaitingReason:
        if waiting.name.endswith(("c", "d")):
            return WaitingReason("the quota is used up", "Its namespace's quota is used up.", "3 of 7")
        text = (
            f'Pod {waiting.namespace}/{waiting.name} requested clearml-injector/fraction "1.000". It {ROOM}. '
        )
        return WaitingReason(ROOM, f"{text}It starts when pods there end.")

    def _ago(self, seconds: int) -> str:
        return (self._now - timedelta(seconds=seconds)).isoformat(timespec="seconds")


SCENES: dict[str, Callable[[], Example]] = {
    "empty": lambda: Example((0, 0, 0), is_full=False),
    "small": lambda: Example((2, 1, 0), is_full=False),
    "cards": lambda: Example((0, 0, 0), is_full=False).with_cards("dra-00", "dra-01"),
    "both": lambda: Example((2, 1, 0), is_full=False).with_cards("dra-00"),
    "large": lambda: Example(tuple(count for *_, count in MODELS), is_full=True),
}


@contextmanager
def shown(scene: str) -> Iterator[str]:
    """Serve a scene in a process of its own while the context is open; give the page's address."""
    command = [sys.executable, "-m", "testbed.page_example", scene]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield f"http://localhost:{int(process.stdout.readline())}/"
    finally:
        process.terminate()
        process.communicate()


def _say(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


async def main(scene: str) -> None:
    """Serve until SIGTERM."""
    example = SCENES[scene]()
    page, socket = Page(example.source, example.about()), bind("127.0.0.1", 0)
    await serve(
        [Listener(page, socket)],
        background=[],
        on_started=lambda: _say(socket.getsockname()[1]),
        on_stopping=page.stop,
        stop_delay_seconds=0,
    )


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
