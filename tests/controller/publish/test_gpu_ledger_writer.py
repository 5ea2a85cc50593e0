"""When GpuLedgers are written: on change, once a second at most, by a leader only; and repaired."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.publish import gpu_ledger_writer as publishing_module
from controller.publish.gpu_ledger_writer import WRITES_AT_ONCE, GpuLedgerWriter
from controller.publish.metrics import ControllerMetrics
from tests.cluster.fake_api import FakeApi, refusal, reply, talking_to, watch
from tests.cluster.objects import event
from tests.controller.replicas import until
from tests.controller.watch.test_ledger_store import ready_state, seen_pod

LEDGERS = "/apis/clearml-injector.io/v1alpha1/gpuledgers"
LEDGER = f"{LEDGERS}/a"


class Leadership:
    def __init__(self, transition=3):
        self.leads = True
        self.transition = transition
        self.raised = []

    async def raise_transition(self, least):
        self.raised.append(least)
        self.transition = least


class LedgersApi(FakeApi):
    """Keeps GpuLedgers and tells of each change on its watch, before which it makes none.

    Attributes:
        stored: By name.
        refusals: How many writes are refused from now on.
    """

    def __init__(self, *stored):
        super().__init__()
        self.stored = {found["metadata"]["name"]: found for found in stored}
        self.refusals = 0
        self._watch = None
        self._is_watched = asyncio.Event()

    async def _answer(self, head, reader, writer):
        self.script = [self._one]
        await super()._answer(head, reader, writer)

    async def _one(self, writer):
        method, path, query, body = self.asked[-1]
        name = path.removeprefix(LEDGERS).strip("/").removesuffix("/status")
        if "watch" in query:
            self._watch = writer
            self._is_watched.set()
            await watch(end=False)(writer)
        elif method == "GET":
            await reply({"items": list(self.stored.values()), "metadata": {"resourceVersion": "1"}})(writer)
        else:
            await self._is_watched.wait()
            await self._write(writer, method, path, name, body)

    async def _write(self, writer, method, path, name, body):
        if self.refusals:
            self.refusals -= 1
            await refusal(500)(writer)
        elif method == "DELETE":
            self.delete(name)
            await reply({})(writer)
        elif path.endswith("/status") and name not in self.stored:
            await refusal(404)(writer)
        else:
            self.put({**self.stored.get(name, {}), **body})
            await reply(self.stored[name])(writer)

    def put(self, found):
        name = found["metadata"]["name"]
        kept = self.stored.get(name, {}).get("metadata", {})
        self.stored[name] = {**found, "metadata": {**kept, **found["metadata"]}}
        self._tell("MODIFIED", self.stored[name])

    def delete(self, name):
        self._tell("DELETED", self.stored.pop(name))

    @property
    def writes(self):
        return [(method, path) for method, path, _, _ in self.asked if method != "GET"]

    def _tell(self, kind, found):
        if self._watch is not None:
            found = {**found, "metadata": {**found["metadata"], "resourceVersion": "9"}}
            data = msgspec.json.encode(event(kind, found)) + b"\n"
            self._watch.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(publishing_module, "SECONDS_BETWEEN_ROUNDS", 0.02)


@asynccontextmanager
async def publishing(fake, state, leadership=None):
    async with talking_to(fake) as api:
        metrics = ControllerMetrics(CollectorRegistry())
        writer = GpuLedgerWriter(api, state, leadership or Leadership(), metrics)
        task = asyncio.create_task(writer.run())
        try:
            yield writer
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def used(fake):
    """What the status writes so far said."""
    return [body["status"]["used"] for _, path, _, body in fake.asked if path.endswith("/status")]


async def test_changes_of_one_round_are_one_write():
    status = ("PATCH", f"{LEDGER}/status")
    state, _ = ready_state("a")
    fake = LedgersApi()
    async with publishing(fake, state):
        await until(lambda: len(used(fake)) == 1)
        for name in ("x", "y"):
            state.set_pod(seen_pod(name, node="a"))
        await until(lambda: len(used(fake)) == 2)
    assert (used(fake), fake.writes) == ([0, 8], [("PATCH", LEDGER), status, status])


async def test_a_write_that_failed_is_made_again():
    state, _ = ready_state("a")
    fake = LedgersApi()
    fake.refusals = 1
    async with publishing(fake, state):
        await until(lambda: used(fake))
    assert used(fake) == [0]


async def test_what_no_longer_leads_writes_nothing():
    state, _ = ready_state("a")
    leadership = Leadership()
    leadership.leads = False
    fake = LedgersApi()
    async with publishing(fake, state, leadership):
        await until(lambda: not state._readers)
    assert fake.writes == []


async def test_a_ledger_of_a_higher_term_raises_ours_and_one_without_a_node_is_deleted():
    state, _ = ready_state()
    fake = LedgersApi({"metadata": {"name": "gone"}, "status": {"leaseTransition": 9}})
    leadership = Leadership()
    async with publishing(fake, state, leadership):
        await until(lambda: not fake.stored)
    assert (leadership.raised, fake.writes) == ([10], [("DELETE", f"{LEDGERS}/gone")])


def test_what_somebody_deletes_edits_or_disowns_is_written_again():
    async def main():
        state, _ = ready_state("a")
        state.set_pod(seen_pod("x", node="a"))
        fake = LedgersApi()

        def is_right():
            found = fake.stored.get("a", {})
            owners = found.get("metadata", {}).get("ownerReferences") or [{}]
            status = found.get("status", {})
            return (status.get("used"), owners[0].get("uid")) == (4, "uid-a") and status["gpus"] != "broken"

        async with publishing(fake, state) as writer:
            await until(is_right)
            right = msgspec.json.decode(msgspec.json.encode(fake.stored["a"]))
            for harm in (
                lambda: fake.delete("a"),
                lambda: fake.put({**right, "status": {**right["status"], "used": 0}}),
                lambda: fake.put({**right, "metadata": {"name": "a", "ownerReferences": []}}),
                lambda: fake.put({**right, "status": {"leaseTransition": 3, "gpus": "broken"}}),
            ):
                harm()
                assert not is_right()
                await until(is_right)
            await rounds(writer)
            count = len(fake.writes)
            state.mark("a")
            await rounds(writer)
            return len(fake.writes) - count

    # Its own writes come back on the watch, and are no news.
    assert asyncio.run(main()) == 0


async def rounds(writer):
    """Wait until the writer has come to rest."""
    for _ in range(2):
        await until(lambda: not writer._changes._names)
        await asyncio.sleep(3 * publishing_module.SECONDS_BETWEEN_ROUNDS)


async def test_slow_writes_hold_up_nobody_else(monkeypatch):
    names = [f"n{number}" for number in range(2 * WRITES_AT_ONCE)]
    slow, write = set(names[: WRITES_AT_ONCE - 1]), GpuLedgerWriter._write

    async def written(writer, name):
        await (asyncio.Event().wait() if name in slow else write(writer, name))

    monkeypatch.setattr(GpuLedgerWriter, "_write", written)
    fake = LedgersApi()
    async with publishing(fake, ready_state(*names)[0]):
        await until(lambda: fake.stored.keys() == set(names) - slow)


async def test_a_controller_whose_term_is_behind_says_so_once_and_writes_nothing():
    state, _ = ready_state("a", "b")
    fake = LedgersApi()
    async with publishing(fake, state) as writer:
        await until(lambda: len(used(fake)) == 2)
        for name in ("a", "b"):
            found = fake.stored[name]
            fake.put({**found, "status": {**found["status"], "leaseTransition": 8}})
        await until(lambda: writer.behind)
        count = len(fake.writes)
        state.set_pod(seen_pod("x", node="a"))
        await rounds(writer)
        text, writes = writer.behind, len(fake.writes) - count
        behind = writer._metrics.terms_behind._value.get()
    assert text == (
        "GpuLedgers are written in term 8 by another controller, this one leads in term 3: uninstall one of "
        "two installations, then restart this controller"
    )
    assert (writes, behind) == (0, 5)
