"""Requests to the page's app in this process, and what its stream says."""

import asyncio
from types import SimpleNamespace

import msgspec

from kube.names import GPU_MEMORY_LABEL
from ledger.ledger import Ledger
from modes.facts import NodeFact, PodFact
from web.page import Page
from web.source import About, LocalSource


class Source(LocalSource):
    """A ledger as the page follows it."""

    def __init__(self, *names, gpus=2):
        super().__init__(Ledger())
        for name in names:
            self.set_node(name, gpus=gpus)

    @property
    def readers(self):
        return self._readers

    def set_node(self, name, gpus=2, **more):
        """Take in a node of GPUs of eight slices and 80,000 MiB."""
        slices = tuple((index, 8) for index in range(gpus))
        labels = {GPU_MEMORY_LABEL: "80000"}
        fact = NodeFact(name=name, labels=labels, gpus=slices, slices_per_gpu=8, gpu_mib=80000, **more)
        self.ledger.set_node(fact)
        self.mark(name)

    def set_pod(self, name, node="a", namespace="team", index=0, slices=4, **more):
        fact = PodFact(namespace=namespace, name=name, node=node, takes=((index, slices),), **more)
        self.ledger.set_pod(fact)
        self.mark(node)


def page_of(source, **facts):
    return Page(source, About(role=lambda: "leading", **facts))


class Request:
    """One request, and what comes of it; `events` waits for so many of the stream."""

    def __init__(self, page, path="/", *, method="GET", query="", **headers):
        given = {"host": "localhost:9081"} | {name.replace("_", "-"): text for name, text in headers.items()}
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in given.items()],
        }
        self.answer = SimpleNamespace(status=None, headers={}, body=b"")
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.came = asyncio.Condition()
        self._page = page

    async def run(self):
        await self._page(self.scope, self._receive, self._send)
        return self.answer

    async def _receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        async with self.came:
            self.answer.body += message.get("body", b"")
            self.came.notify_all()

    def events(self):
        """All that came of the stream: names and data."""
        whole = self.answer.body.decode().split("\n\n")[:-1]
        lines = [dict(line.split(": ", 1) for line in event.split("\n")) for event in whole]
        return [(event["event"], msgspec.json.decode(event["data"])) for event in lines]

    async def until(self, condition):
        """Wait until what came of the stream fulfils a condition, and return it."""
        async with self.came:
            await self.came.wait_for(lambda: condition(self.events()))
        return self.events()


def get(page, path="/", **more):
    """The answer to one request that ends by itself."""
    return asyncio.run(_get(page, path, more))


async def _get(page, path, more):
    return await Request(page, path, **more).run()


def watching(page, watch, **more):
    """Run `watch(request)` during one stream, which ends then."""

    async def main():
        request = Request(page, "/stream", **more)
        task = asyncio.create_task(request.run())
        try:
            return await watch(request)
        finally:
            request.gone.set()
            request.reads.set()
            page.stop()
            await task

    return asyncio.run(main())


def rows(events):
    return {row["node"]: row for name, data in events if name == "rows" for row in data}


def is_whole(events):
    return any(name == "whole" for name, _ in events)


def panels(events):
    return [data for name, data in events if name == "panels"]


def shown_on(page):
    """The rows and the panels that a viewer of a page gets first."""

    async def watch(request):
        return await request.until(lambda events: is_whole(events) and panels(events))

    events = watching(page, watch)
    return rows(events), panels(events)[0]


def shown(source, **facts):
    return shown_on(page_of(source, **facts))
