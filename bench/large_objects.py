"""Run with `python -m bench.large_objects`: memory and the longest step while the largest pods are listed.

An API server in another process has pods of 1.45 MB of `<`, as etcd accepts them; JSON writes each as six
characters. A watch of the controller lists them twice.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from aiohttp import web

from bench.controller_loop import MEMORY, STEP, Steps, peak_mib
from bench.harness import Figure, report
from bench.machine import Watch
from bench.processes import child, child_line
from cluster.endpoint import Endpoint
from cluster.kube_client import ApiServer
from cluster.listing import pages
from controller.watch.ledger_store import LedgerStore
from controller.watch.resources import pods
from modes.resource_names import ResourceNames

BYTES = 1_450_000


def main(
    *,
    count: Annotated[int, typer.Option("--pods", help="Pods.")] = 40,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    serve: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Measure memory and the longest step of the loop."""
    if serve:
        asyncio.run(_serve(count))
        return
    watch = Watch()
    figures = uvloop.run(_measure(count))
    report("large-objects", figures, watch, json_file, pods=count)


async def _measure(count: int) -> list[Figure]:
    async with child("bench.large_objects", "--serve", f"--pods={count}") as server:
        api = ApiServer(Endpoint(f"http://127.0.0.1:{int(await child_line(server))}"))
        store, steps = LedgerStore(lambda: 0.0), Steps()
        for _ in range(2):
            listed = pages(api, pods(ResourceNames()))
            await store.watched_pods.replace(page async for page, _ in listed)
        assert len(store.pods) == count
        await api.close()
    return [
        Figure("longest step", "ms CPU", [steps.take()], bar=STEP),
        Figure("RSS at most", "MiB", [peak_mib()], bar=MEMORY),
    ]


async def _serve(count: int) -> None:
    """Answer lists of pods until the pipe of the input is closed."""
    note = b"\\u003c" * BYTES

    async def answer(request: web.Request) -> web.StreamResponse:
        first, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        last = min(count, first + limit)
        more = b'"continue":"%d",' % last if last < count else b""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata":{%b"resourceVersion":"1"},"items":[' % more)
        for each in range(first, last):
            comma = b"," if each > first else b""
            name = b'{"name":"p%d","namespace":"team","uid":"%d"}' % (each, each)
            await response.write(b'%b{"metadata":%b,"spec":{"containers":[]},"status":{"x":"' % (comma, name))
            await response.write(note)
            await response.write(b'"}}')
        await response.write(b"]}")
        return response

    app = web.Application()
    app.router.add_get("/api/v1/pods", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    typer.run(main)
