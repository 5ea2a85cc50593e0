"""Whole controllers in this process, against an API server of a few lines."""

import asyncio
import contextlib
from dataclasses import replace

from controller.options import ControllerOptions
from controller.process import ControllerProcess
from testbed import plain_http
from testbed.certificate_files import write_tls
from testbed.process import POLL_S, WAIT_S
from testbed.product import POLICIES
from tests.cluster.fake_api import FakeApi, forever, refusal, reply, watch
from tests.cluster.fake_lease import FakeLease
from tests.cluster.objects import listed

QUICK = {"lease_duration": 3, "renew_deadline": 2, "lease_retry": 0.1}
LONG = {"lease_duration": 900, "renew_deadline": 800, "lease_retry": 0.1}
"""However busy the machine is, a leader keeps its Lease until it gives it back."""


class ClusterApi(FakeApi):
    """Lists, watches that stay open, one Lease; every other write is taken.

    Attributes:
        lease: The Lease.
        refused: Resources whose lists and watches are refused from now on.
        away: Whether nothing is answered any more.
    """

    def __init__(self, nodes=(), pods=()):
        super().__init__()
        self.items = {"nodes": nodes, "pods": pods}
        self.lease = FakeLease()
        self.refused = set()
        self.away = False
        self.watches = {}

    async def _answer(self, head, reader, writer):
        self.script = [self._one]
        await super()._answer(head, reader, writer)

    async def _one(self, writer):
        method, path, query, body = self.asked[-1]
        resource = path.rpartition("/")[2]
        if self.away:
            await forever(writer)
        elif resource in self.refused:
            await refusal(403, f"{resource} is forbidden")(writer)
        elif "/leases" in path:
            await self.lease.answer(method, body)(writer)
        elif "watch" in query:
            self.watches[resource] = writer
            await watch(end=False)(writer)
        elif resource in self.items:
            await reply(listed(*self.items[resource]))(writer)
        else:
            await reply({"items": [], "metadata": {}} if method == "GET" else body or {})(writer)


@contextlib.asynccontextmanager
async def running(api, folder, **changes):
    options = ControllerOptions(
        port=0,
        health_port=0,
        tls_directory=write_tls(folder / "tls"),
        policies=POLICIES,
        namespace="own",
        lease="controller",
        stop_delay=0,
        **LONG,
    )
    replica = ControllerProcess(replace(options, **changes), api)
    serving = asyncio.create_task(replica.serve())
    try:
        yield replica
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def plain(replica, path):
    return await asyncio.to_thread(plain_http.get, f"http://127.0.0.1:{replica.ports[1]}{path}")


async def until(check):
    async with asyncio.timeout(WAIT_S):
        while True:
            found = check()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(POLL_S)
