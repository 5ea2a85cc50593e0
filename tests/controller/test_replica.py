"""One whole controller: what it says of itself while something that it needs is away."""

import asyncio

import httpx

from tests.controller.fake_api import talking_to
from tests.controller.objects import node, pod
from tests.controller.replicas import ClusterApi, plain, running, until


async def ready(replica):
    """Status and last line of its readiness."""
    try:
        answer = await plain(replica, "/readyz")
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.text.splitlines()[-1]


async def until_said(replica, text):
    """Wait until readiness says something, and give all that it then says."""

    async def said():
        found = await ready(replica)
        return found if text in found[1] else None

    return await until(said)


def test_a_controller_stays_ready_and_says_so_while_the_api_server_is_away(tmp_path):
    async def main():
        fake = ClusterApi([node("gpu-0")], [pod("a")])
        async with talking_to(fake) as api, running(api, tmp_path) as replica:
            leading = await until_said(replica, "leading")
            fake.away = True
            await until(lambda: not replica.leads)
            away = await until_said(replica, "out of reach")
            ledger = (await plain(replica, "/")).text
            fake.away = False
            return leading, away, await until_said(replica, "leading"), ledger

    leading, (status, text), again, ledger = asyncio.run(main())
    assert (leading, again) == ((200, "leading in term 0"), (200, "leading in term 1"))
    # Unready, it would lose its streams, by which webhooks place: it knows what it knew.
    assert status == 200
    assert text.startswith("standing by; leader: ")
    assert "; the API server is out of reach: TimeoutError" in text
    assert "gpu-0" in ledger
