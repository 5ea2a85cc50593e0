"""What the leader keeps of what pods used: against an API server of a few lines, by a clock of the test's."""

import json
from datetime import UTC, datetime

import pytest

from controller.use.history_loop import SAVE_SECONDS, STEP_SECONDS, UseHistoryLoop
from controller.use.store import UseStore
from kube.dra import DRIVER
from kube.names import USE_HISTORY_KEY as HISTORY
from ledger.claimed_cards import CardClaim
from modes.claim import ClaimedShare
from modes.fraction import Fraction
from tests.cluster.fake_api import refusal, reply
from tests.cluster.objects import claiming, node, pod
from tests.controller.cards import offer, part
from tests.controller.world import World

STORE = "/api/v1/namespaces/ours/configmaps/use"
READ, WRITE = ("GET", STORE), ("PATCH", STORE)
OK = reply({})


def report(**more):
    since = datetime.fromtimestamp(0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    use = {"namespace": "team", "pod": "a", "container": "task", "gpu": 0, "since": since}
    use |= {"memoryMiB": 40960, "usedMiB": 100, "peakMiB": 9000, "p95MiB": 8000, "busyPercent": 3}
    status = {"registered": True, "gpus": [], "usage": {"count": 1, "containers": [use]}, **more}
    return {"metadata": {"name": "gpu-0", "resourceVersion": "1"}, "status": status}


class HistoryWorld(World):
    """A node with one pod."""

    def start(self):
        self.add_node(node("gpu-0"))
        notes = {"clearml-injector/injected": "default@1", "clearml-injector/slices": "4"}
        self.pod = pod("a", annotations=notes, labels={"clearml-injector/fraction": "0.500"})
        self.add(self.pod)
        self.report(report())
        self.restart()

    def restart(self):
        """Another replica leads: only what is stored is left."""
        store, clock = UseStore(self.api, "ours", "use"), lambda: self.now
        self.loop = UseHistoryLoop(store, self.state, self.leading, clock=clock, now=clock)

    async def after(self, seconds, *answers):
        return await self.step(*answers, after=seconds)

    @property
    def written(self):
        return self.fake.asked[-1][3]["data"][HISTORY]


@pytest.fixture
async def world():
    async with HistoryWorld.running() as world:
        yield world


async def test_the_history_is_saved_at_once_then_from_time_to_time(world):
    assert await world.after(0, OK, OK) == [READ, WRITE]
    [owner] = json.loads(world.written)["owners"]
    assert (owner["pods"], owner["seconds"], owner["peakMiB"], owner["lastSeen"]) == (1, 0, 9000, 1000)
    assert await world.after(STEP_SECONDS) == []
    assert await world.after(SAVE_SECONDS, OK) == [WRITE]
    [owner] = json.loads(world.written)["owners"]
    assert owner["seconds"] == 3 * STEP_SECONDS, "of the longer pause nobody knows more than a minute"


async def test_a_claim_is_kept_in_mib_of_its_card(world):
    world.state.watched_offers.set(offer("gpu-0"))
    world.state.watched_claims.set(CardClaim("team", "c", "a", (part("gpu-0", 40960, "gpu-0"),)))
    share = ClaimedShare(DRIVER, Fraction(4, 8))
    world.add(claiming(world.pod, share))
    card = {"index": 0, "uuid": "GPU-gpu-0-0", "memoryMiB": 81920, "healthy": True}
    world.report(report(gpus=[card], offer="dra"))
    await world.after(0, OK, OK)
    [owner] = json.loads(world.written)["owners"]
    assert (owner["size"], owner["held"], owner["enough"]) == ([81920, True], 40960, 9000)


async def test_the_next_leader_goes_on_with_what_was_saved(world):
    await world.after(0, OK, OK)
    await world.after(SAVE_SECONDS, OK)
    text = world.written
    world.restart()
    assert await world.after(STEP_SECONDS, reply({"data": {HISTORY: text}}), OK) == [READ, WRITE]
    [owner] = json.loads(world.written)["owners"]
    assert (owner["pods"], owner["seconds"]) == (1, 60)


async def test_a_history_that_cannot_be_read_is_not_replaced_and_one_that_makes_no_sense_is(world):
    assert await world.after(0, refusal(500, "no")) == [READ]
    assert await world.after(STEP_SECONDS, reply({"data": {HISTORY: "["}}), OK) == [READ, WRITE]


async def test_what_could_not_be_saved_is_saved_in_the_next_step(world):
    assert await world.after(0, OK, refusal(500, "no")) == [READ, WRITE]
    assert await world.after(STEP_SECONDS, OK) == [WRITE]
    world.leading.leads = False
    assert await world.after(SAVE_SECONDS) == []
