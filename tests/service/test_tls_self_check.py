"""A process's look at its own port."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import uvloop

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.live_context import LiveTlsContext
from service.http.sockets import bind
from service.tls_self_check import TlsSelfCheck
from testbed.listening import GET, OK, serving, until

LOOP = uvloop.new_event_loop

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
TRUST = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())


def context_of(names=LOCAL_NAMES, authority=AUTHORITY, at=NOW):
    context = LiveTlsContext()
    context.swap(make_leaf(authority, names, at))
    return context


def port_of(served, **options):
    return TlsSelfCheck(("127.0.0.1", served.port), "localhost", lambda: TRUST, **options)


async def test_a_port_that_serves_is_found_well_and_no_connection_stays():
    async with serving(tls=context_of().listener) as served:
        port = port_of(served)
        for _ in range(10):
            assert await port.check_handshake() is None
        await until(lambda: served.acceptor.count == 0)


@pytest.mark.parametrize("context", [context_of(["other"]), context_of(authority=make_authority(NOW))])
async def test_a_certificate_for_other_names_or_of_another_ca_is_said(context):
    async with serving(tls=context.listener) as served:
        said = await port_of(served).check_handshake()
        assert said.startswith(f"127.0.0.1:{served.port} failed the TLS handshake for localhost: ")
        assert "CERTIFICATE_VERIFY_FAILED" in said


async def test_a_certificate_that_has_ended_is_said():
    past = NOW - timedelta(days=300)
    authority = make_authority(past)
    context = context_of(authority=authority, at=past)
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    async with serving(tls=context.listener) as served:
        said = await TlsSelfCheck(("127.0.0.1", served.port), "localhost", lambda: trust).check_handshake()
        assert "certificate has expired" in said


async def test_a_port_that_says_nothing_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = TlsSelfCheck(silent.getsockname(), "localhost", lambda: TRUST, handshake_seconds=0.05)
        said = await port.check_handshake()
    assert said.endswith(" completed no TLS handshake in 0.05 s")


async def test_a_port_that_nobody_listens_on_is_said():
    with bind("127.0.0.1", 0) as unused:
        said = await TlsSelfCheck(unused.getsockname(), "localhost", lambda: TRUST).check_handshake()
    assert "failed the TLS handshake for localhost: " in said
    assert "refused" in said or "Connect call failed" in said


async def test_the_look_gets_in_where_all_connections_are_taken():
    async with serving(tls=context_of().listener, connections=4) as served:
        tls = {"ssl": TRUST, "server_hostname": "localhost"}
        for _ in range(4):
            assert (await (await served.connect(**tls)).ask(GET)).startswith(OK)
        for _ in range(4):
            await served.connect()
        assert await port_of(served).check_handshake() is None


async def test_two_failures_in_a_row_count_and_the_next_success_ends_them():
    context = context_of()
    async with serving(tls=context.listener) as served:
        port = port_of(served, seconds_between_checks=0.01)
        watching = asyncio.create_task(port.watch())
        context.swap(make_leaf(AUTHORITY, ["other"], NOW))
        await until(lambda: port.missing is not None)
        context.swap(make_leaf(AUTHORITY, LOCAL_NAMES, NOW))
        await until(lambda: port.missing is None)
        watching.cancel()


async def test_one_failure_does_not_count():
    async with serving(tls=context_of().listener) as served:
        port = port_of(served, seconds_between_checks=0.001)
        looks = iter(["broken", None] * 5)
        seen = []

        async def check_handshake():
            seen.append(port.missing)
            return next(looks)

        port.check_handshake = check_handshake
        watching = asyncio.create_task(port.watch())
        await until(lambda: len(seen) >= 10)
        watching.cancel()
        assert set(seen) == {None}


async def test_nothing_is_said_while_there_is_no_certificate():
    assert await TlsSelfCheck(("127.0.0.1", 1), "localhost", lambda: None).check_handshake() is None


def test_every_address_is_dialled_at_loopback():
    assert TlsSelfCheck(("0.0.0.0", 1), "a", lambda: None)._host == "127.0.0.1"  # noqa: S104 nothing listens
    assert TlsSelfCheck(("::", 1), "a", lambda: None)._host == "::1"
    assert TlsSelfCheck(("10.1.2.3", 1), "a", lambda: None)._host == "10.1.2.3"
