"""A loop of the leader against an API server of a few lines, by a clock of the test's."""

from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from controller.publish.metrics import ControllerMetrics
from controller.watch.gpu_node import gpu_nodes
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import nodes, pods
from modes.resource_names import ResourceNames
from tests.cluster.events import EventsOfSteps
from tests.cluster.fake_api import FakeApi, talking_to
from tests.cluster.fake_lease import Leading
from tests.cluster.objects import read_object

NAMES = ResourceNames()


class World:
    """What a loop works with; a kind of world sets `loop` in `start`, also for the next leader."""

    def __init__(self, api, fake):
        self.now, self.api, self.fake, self.leading, self.reason = 1000.0, api, fake, Leading(), None
        self.state = LedgerStore(lambda: self.now)
        self.events = EventsOfSteps(api)
        self.metrics = ControllerMetrics(CollectorRegistry())
        self.start()

    @classmethod
    @asynccontextmanager
    async def running(cls):
        fake = FakeApi()
        async with talking_to(fake) as api:
            yield cls(api, fake)

    def add(self, *made):
        for each in made:
            self.state.set_pod(read_object(pods(NAMES), each))

    def add_node(self, made):
        self.state.set_node(read_object(nodes(NAMES), made))

    def report(self, made):
        self.state.set_agent(read_object(gpu_nodes(), made))

    async def step(self, *answers, after=0.0):
        """Take one step with these answers; return what was requested."""
        self.now += after
        self.fake.script, self.fake.asked = list(answers), []
        await self.loop.step()
        await self.events.write_all()
        return [(method, path) for method, path, _, _ in self.fake.asked]
