"""When GpuLedgers are written: on change, once a second at most, and by a leader only."""

import asyncio
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from controller.metrics import ControllerMetrics
from controller.publishing import Publisher
from tests.controller.fake_api import FakeApi, refusal, reply, talking_to
from tests.controller.test_state import ready_state, seen_pod

LEDGER = "/apis/clearml-injector.io/v1alpha1/gpuledgers/a"
NOTHING = reply({"items": [], "metadata": {}})
DONE = reply({})


class Leadership:
    def __init__(self):
        self.leads = True
        self.transition = 3
        self.raised = []

    async def raise_transition(self, least):
        self.raised.append(least)


@asynccontextmanager
async def publishing(fake, state, clock, leadership):
    async with talking_to(fake) as api:
        metrics = ControllerMetrics(CollectorRegistry())
        publisher = Publisher(api, state, leadership, metrics, clock)
        task = asyncio.create_task(publisher.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def used(fake):
    """What the status writes so far said."""
    return [body["status"]["used"] for _, path, _, body in fake.asked if path.endswith("/status")]


def test_changes_within_a_second_are_one_write():
    async def main():
        state, clock = ready_state("a")
        fake = FakeApi(NOTHING, DONE, DONE, DONE)
        async with publishing(fake, state, clock, Leadership()):
            await fake.until_asked(3)
            for name in ("x", "y"):
                state.set_pod(seen_pod(name, node="a"))
            clock.now = 1.0
            state.mark("a")
            await fake.until_asked(4)
        assert [(method, path) for method, path, _, _ in fake.asked[1:]] == [
            ("PATCH", LEDGER),
            ("PATCH", f"{LEDGER}/status"),
            ("PATCH", f"{LEDGER}/status"),
        ]
        return used(fake)

    assert asyncio.run(main()) == [0, 8]


def test_a_write_that_failed_is_made_again():
    async def main():
        state, clock = ready_state("a")
        fake = FakeApi(NOTHING, refusal(500), DONE, DONE)
        async with publishing(fake, state, clock, Leadership()):
            await fake.until_asked(2)
            clock.now = 1.0
            await fake.until_asked(4)
        return used(fake)

    assert asyncio.run(main()) == [0]


def test_what_no_longer_leads_writes_nothing():
    async def main():
        state, clock = ready_state("a")
        leadership = Leadership()
        leadership.leads = False
        fake = FakeApi(NOTHING)
        async with publishing(fake, state, clock, leadership) as ended:
            await ended
        return len(fake.asked)

    assert asyncio.run(main()) == 1


def test_a_ledger_of_a_higher_term_raises_ours_and_one_without_a_node_is_deleted():
    async def main():
        state, clock = ready_state()
        found = {"metadata": {"name": "gone"}, "status": {"leaseTransition": 9}}
        fake = FakeApi(reply({"items": [found], "metadata": {}}), DONE)
        leadership = Leadership()
        async with publishing(fake, state, clock, leadership):
            await fake.until_asked(2)
        return leadership.raised, fake.asked[1][:2]

    path = LEDGER.removesuffix("/a") + "/gone"
    assert asyncio.run(main()) == ([10], ("DELETE", path))
