"""Run with `python -m bench.controller_load TLS_DIR SECONDS`: everybody who asks a controller.

Webhooks that follow its stream and have batches placed, some for a pod's author who demands all that may be
demanded of a node, a scraper, and people who follow the page, open it again, and look at the whole ledger.
Begins when it reads the ports of API, plain listener and page from a line of input.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from testbed.controller_process import client_context

STREAMS = 3
BATCHES_PER_SECOND = 50
ASKS = 4
RESERVATIONS = 400
"""Asks of one batch now and then, whose reservations all end together half a minute later."""

DEAR_PER_SECOND, TERMS = 5, 100
"""Asks for pods whose authors write as many terms as the webhook lets pass, and how many these are."""
DEAR = ("Gt", "Lt", "NotIn")
HOST_LABEL = "kubernetes.io/hostname"


class Load:
    """Clients of one controller, until a moment."""

    def __init__(self, api: httpx.AsyncClient, plain: httpx.AsyncClient, page: httpx.AsyncClient) -> None:
        self._api = api
        self._plain = plain
        self._page = page
        self._until = 0.0
        self._number = 0

    async def run(self, seconds: float) -> None:
        """Ask for so long."""
        self._until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(STREAMS):
                group.create_task(self._follow(self._api, "/v1/ledger/stream"))
                group.create_task(self._follow(self._page, "/stream"))
            group.create_task(self._again(1.0, lambda: self._plain.get("/metrics")))
            group.create_task(self._again(5.0, self._open_page))
            group.create_task(self._again(1 / BATCHES_PER_SECOND, lambda: self._place(ASKS)))
            group.create_task(self._again(5.0, lambda: self._place(RESERVATIONS)))
            group.create_task(self._again(1 / DEAR_PER_SECOND, self._place_dear))

    async def _again(self, seconds: float, ask: Callable[[], Awaitable[httpx.Response | None]]) -> None:
        while time.monotonic() < self._until:
            start = time.monotonic()
            response = await ask()
            assert response is None or response.is_success, response.text
            await asyncio.sleep(max(0.0, start + seconds - time.monotonic()))

    async def _follow(self, client: httpx.AsyncClient, path: str) -> None:
        async with client.stream("GET", path) as response:
            async for _ in response.aiter_raw():
                if time.monotonic() >= self._until:
                    break

    async def _open_page(self) -> None:
        """Be sent every node, and leave."""
        async with self._page.stream("GET", "/stream") as response:
            assert response.is_success
            async for line in response.aiter_lines():
                if line == "event: panels":
                    break

    async def _place(self, count: int) -> None:
        asks = [self._ask() for _ in range(count)]
        response = await self._api.post("/v1/placements", json={"asks": asks})
        assert response.is_success, response.text

    async def _place_dear(self) -> None:
        """Ask for a pod whose author has written all that the webhook lets pass, and never the same twice."""
        asked, operator = self._ask(), DEAR[self._number % len(DEAR)]
        values = [f"{self._number * TERMS + each}" for each in range(TERMS)]
        terms = [
            {"matchExpressions": [{"key": HOST_LABEL, "operator": operator, "values": [value]}]}
            for value in values
        ]
        asked["demands"] = {"constraints": {"required_terms": terms}}
        response = await self._api.post("/v1/placements", json={"asks": [asked]})
        assert response.is_success, response.text

    def _ask(self) -> dict[str, object]:
        self._number += 1
        number = self._number
        return {
            "share": {"fraction": {"slices": 1 + number % 8, "slices_per_gpu": 8}, "cpu_milli": 500},
            "accounting": {"namespace": f"team-{number % 40}", "reservation": f"uid-{number}"},
        }


async def main(tls: Path, seconds: float) -> None:
    """Press one controller."""
    context = client_context(tls)
    api, plain, page = (
        httpx.AsyncClient(
            base_url=f"{scheme}://localhost:{port}", verify=context, trust_env=False, timeout=60
        )
        for scheme, port in zip(("https", "http", "http"), sys.stdin.readline().split(), strict=True)
    )
    async with api, plain, page:
        await Load(api, plain, page).run(seconds)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
