"""Events in tests: kept instead of written, or written before a test goes on."""

from cluster.event_writer import EventWriter


class KeptEvents:
    """What a writer of Events was given."""

    def __init__(self):
        self.bodies = []

    def write(self, manifest, written=lambda: None):
        if manifest["metadata"]["name"] in [each["metadata"]["name"] for each in self.bodies]:
            return False
        self.bodies.append(manifest)
        written()
        return True


class EventsOfSteps(EventWriter):
    """A writer whose Events are written when a test says so."""

    def __init__(self, api):
        super().__init__(api, lambda: None)

    async def write_all(self):
        while self._waiting._queues:
            await self._write(*await self._waiting.get())
