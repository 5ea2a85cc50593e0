"""An agent whose day is a minute: `python -m tests.long.agent.day SPEED OPTIONS` runs one by a fast clock.

All that waits by the event loop's clock waits so many times shorter. On SIGUSR1 it prints how many objects it
holds.
"""

import asyncio
import gc
import selectors
import signal
import sys
from typing import Any

import msgspec

from agent import health, registration
from agent.options import AgentOptions
from agent.process import run_agent
from service.http import plain_http

KUBELETS_SECONDS = 0.3
"""By everybody's clock, until a kubelet's books show a registration."""


class FastSelector(selectors.DefaultSelector):
    """Waits for as long as fast seconds last."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for files."""
        return super().select(timeout / self._speed if timeout else timeout)


class FastLoop(asyncio.SelectorEventLoop):
    """A loop whose clock runs so many times as fast."""

    def __init__(self, speed: float) -> None:
        super().__init__(FastSelector(speed))
        self._speed = speed

    def time(self) -> float:
        """Return fast seconds."""
        return super().time() * self._speed


class ApiServer:
    """An API server that takes everything."""

    def get(self, path: str) -> dict[str, Any]:
        """Return a Node."""
        return {"metadata": {"uid": "uid-1"}}

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Take a write."""
        return body

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Take an Event."""


def tell() -> None:
    """Print what the process holds."""
    gc.collect()
    sys.stdout.write(f"{len(gc.get_objects())}\n")
    sys.stdout.flush()


async def main(options: AgentOptions) -> None:
    """Run the agent."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
    await run_agent(options, ApiServer())


if __name__ == "__main__":
    speed = float(sys.argv[1])
    # These wait for something else than the loop's clock, or for another process that lives at its own pace.
    health.EVENT_SECONDS /= speed
    health.CHECK_SECONDS /= speed
    registration.STREAM_SECONDS *= speed
    registration.SETTLE_SECONDS = KUBELETS_SECONDS * speed
    plain_http.HEAD_SECONDS *= speed
    with asyncio.Runner(loop_factory=lambda: FastLoop(speed)) as runner:
        runner.run(main(msgspec.json.decode(sys.argv[2], type=AgentOptions)))
