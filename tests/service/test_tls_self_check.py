"""A process's look at its own port."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.live_context import LiveTlsContext
from service.http.sockets import bind
from service.tls_self_check import TlsSelfCheck
from testbed.listening import GET, OK, run, until

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
TRUST = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())


def serving(names=LOCAL_NAMES, authority=AUTHORITY, at=NOW):
    context = LiveTlsContext()
    context.swap(make_leaf(authority, names, at))
    return context


def port_of(served, **options):
    return TlsSelfCheck(("127.0.0.1", served.port), "localhost", lambda: TRUST, **options)


def test_a_port_that_serves_is_found_well_and_no_connection_stays():
    async def test(served):
        port = port_of(served)
        for _ in range(10):
            assert await port.check_handshake() is None
        await until(lambda: served.acceptor.count == 0)

    run(test, tls=serving().listener)


def test_a_certificate_for_other_names_or_of_another_ca_is_said():
    for context in (serving(["other"]), serving(authority=make_authority(NOW))):

        async def test(served):
            said = await port_of(served).check_handshake()
            assert said.startswith(f"127.0.0.1:{served.port} failed the TLS handshake for localhost: ")
            assert "CERTIFICATE_VERIFY_FAILED" in said

        run(test, tls=context.listener)


def test_a_certificate_that_has_ended_is_said():
    past = NOW - timedelta(days=300)
    authority = make_authority(past)
    context = serving(authority=authority, at=past)
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())

    async def test(served):
        said = await TlsSelfCheck(("127.0.0.1", served.port), "localhost", lambda: trust).check_handshake()
        assert "certificate has expired" in said

    run(test, tls=context.listener)


def test_a_port_that_says_nothing_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = TlsSelfCheck(silent.getsockname(), "localhost", lambda: TRUST, handshake_seconds=0.05)
        said = asyncio.run(port.check_handshake())
    assert said.endswith(" completed no TLS handshake in 0.05 s")


def test_a_port_that_nobody_listens_on_is_said():
    with bind("127.0.0.1", 0) as unused:
        said = asyncio.run(TlsSelfCheck(unused.getsockname(), "localhost", lambda: TRUST).check_handshake())
    assert "failed the TLS handshake for localhost: " in said
    assert "refused" in said or "Connect call failed" in said


def test_the_look_gets_in_where_all_connections_are_taken():
    async def test(served):
        tls = {"ssl": TRUST, "server_hostname": "localhost"}
        for _ in range(4):
            assert (await (await served.connect(**tls)).ask(GET)).startswith(OK)
        for _ in range(4):
            await served.connect()
        assert await port_of(served).check_handshake() is None

    run(test, tls=serving().listener, connections=4)


def test_two_failures_in_a_row_count_and_the_next_success_ends_them():
    context = serving()

    async def test(served):
        port = port_of(served, seconds_between_checks=0.01)
        watching = asyncio.create_task(port.watch())
        context.swap(make_leaf(AUTHORITY, ["other"], NOW))
        await until(lambda: port.missing is not None)
        context.swap(make_leaf(AUTHORITY, LOCAL_NAMES, NOW))
        await until(lambda: port.missing is None)
        watching.cancel()

    run(test, tls=context.listener)


def test_one_failure_does_not_count():
    async def test(served):
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

    run(test, tls=serving().listener)


def test_nothing_is_said_while_there_is_no_certificate():
    async def check_handshake():
        return await TlsSelfCheck(("127.0.0.1", 1), "localhost", lambda: None).check_handshake()

    assert asyncio.run(check_handshake()) is None


def test_every_address_is_dialled_at_loopback():
    assert TlsSelfCheck(("0.0.0.0", 1), "a", lambda: None)._host == "127.0.0.1"  # noqa: S104 nothing listens
    assert TlsSelfCheck(("::", 1), "a", lambda: None)._host == "::1"
    assert TlsSelfCheck(("10.1.2.3", 1), "a", lambda: None)._host == "10.1.2.3"
