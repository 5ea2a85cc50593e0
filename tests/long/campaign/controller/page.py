"""Requests to the controller's page: any path, method, header and token, and streams that are left."""

from __future__ import annotations

import asyncio
import random

from controller.pods.pod_demands import PodDemands
from controller.publish.page import WaitingReasons, about
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import SeenPod
from kube.scheduling import Constraints
from modes.resource_names import ResourceNames
from tests.web.asking import Request, is_whole
from web.page import HEADERS, Page

PATHS = (
    "/",
    "/page.js",
    "/page.css",
    "/icon.svg",
    "/stream",
    "/stream",
    "/stream",
    "/stream",
    "/x",
    "",
    "//",
)
METHODS = ("GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "x")
QUERIES = ("", "namespace=red", "namespace=%00", "a=b&" * 300)
STATUSES = {200, 403, 404, 405, 421, 503}
SECONDS = 20.0
"""After which a stream that says nothing is a finding."""


async def any_node(_pod: SeenPod) -> PodDemands:
    """Say of each pod that it demands nothing of its node."""
    return PodDemands(Constraints())


class Pages:
    """A page of a ledger that goes on changing."""

    def __init__(self, store: LedgerStore) -> None:
        reasons = WaitingReasons(store, ResourceNames(), any_node)
        facts = about(store, lambda: "leading", reasons, None)
        self._page = Page(store, facts)

    async def check(self, dice: random.Random) -> int:
        """Send one request, and leave its stream once it is whole.

        Raises:
            AssertionError: another status, or a header too few.
        """
        query, path, method = dice.choice(QUERIES), dice.choice(PATHS), dice.choice(METHODS)
        headers = {}
        if dice.random() < 0.1:
            headers["sec-fetch-site"] = dice.choice(["cross-site", "same-origin", "x"])
        request = Request(self._page, path, method=method, query=query, **headers)
        task = asyncio.ensure_future(request.run())
        await self._leave(request, task)
        answer = request.answer
        assert answer.status in STATUSES, f"{method} {path}: {answer.status}"
        assert HEADERS.keys() <= answer.headers.keys(), f"{method} {path}: {answer.headers}"
        if answer.status == 200 and path == "/stream":
            assert is_whole(request.events()), "a stream that ended by itself"
        return 1

    async def _leave(self, request: Request, task: asyncio.Task[object]) -> None:
        """Wait for an answer that ends, or for a stream that is whole."""
        whole = asyncio.ensure_future(request.until(is_whole))
        await asyncio.wait({task, whole}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert task.done() or whole.done(), "a stream that never is whole"
        request.gone.set()
        whole.cancel()
        await task

    def stop(self) -> None:
        """End all streams."""
        self._page.stop()
