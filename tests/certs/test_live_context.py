"""Pairs that change under real handshakes."""

import asyncio
import ssl
from datetime import UTC, datetime

import pytest
import uvloop

from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.live_context import LiveTlsContext
from certs.values import CertificateError, KeyPair
from testbed.certificate_files import der_of
from tests.certs.handshakes import listening, presenting, shake_hands, trusting

NOW = datetime.now(UTC)
AUTHORITY = make_authority(NOW)
CA = AUTHORITY.certificate_pem


def new_leaf(authority: KeyPair = AUTHORITY) -> KeyPair:
    return make_leaf(authority, LOCAL_NAMES, NOW)


def mismatched() -> KeyPair:
    return KeyPair(new_leaf().certificate_pem, new_leaf().key_pem)


def live_with(pair: KeyPair) -> LiveTlsContext:
    live = LiveTlsContext()
    live.swap(pair)
    return live


async def test_a_client_that_dials_an_address_sends_no_name_and_gets_the_newest_pair():
    first, second = new_leaf(), new_leaf()
    live = live_with(first)
    async with listening(live.listener) as port:
        await shake_hands(port, trusting(CA), "127.0.0.1")
        live.swap(second)
        assert (await shake_hands(port, trusting(CA), "127.0.0.1")).leaf_der == der_of(second)
        assert (await shake_hands(port, trusting(CA), "localhost")).leaf_der == der_of(second)


async def test_a_bad_pair_keeps_the_one_before():
    good = new_leaf()
    live = live_with(good)
    with pytest.raises(CertificateError, match=r"tls\.key: is not the key of tls\.crt;"):
        live.swap(mismatched())
    async with listening(live.listener) as port:
        assert (await shake_hands(port, trusting(CA))).leaf_der == der_of(good)


async def test_handshakes_are_refused_before_the_first_pair():
    live = LiveTlsContext()
    assert not live.serving
    async with listening(live.listener) as port:
        with pytest.raises(OSError):
            await shake_hands(port, trusting(CA))
        live.swap(new_leaf())
        assert live.serving
        await shake_hands(port, trusting(CA))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_versions_of_today_are_spoken(version):
    client = trusting(CA)
    client.minimum_version = client.maximum_version = version
    async with listening(live_with(new_leaf()).listener) as port:
        await shake_hands(port, client)


def test_nothing_older_is_offered():
    assert live_with(new_leaf()).listener.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_no_session_carries_a_client_past_a_swap():
    first, second = new_leaf(), new_leaf()
    live = live_with(first)
    client = trusting(CA)
    async with listening(live.listener) as port:
        before = await shake_hands(port, client)
        live.swap(second)
        after = await shake_hands(port, client, session=before.session)
    assert (after.resumed, after.leaf_der) == (False, der_of(second))


async def test_only_clients_of_the_client_ca_get_in_and_a_swap_changes_which(tmp_path):
    old, new = make_authority(NOW), make_authority(NOW)
    by_old = presenting(CA, new_leaf(old), tmp_path / "old")
    by_new = presenting(CA, new_leaf(new), tmp_path / "new")
    live = LiveTlsContext(verify_clients=True)
    live.swap(new_leaf(), old.certificate_pem)
    async with listening(live.listener) as port:
        let_in = await shake_hands(port, by_old)
        for stranger in (by_new, trusting(CA)):
            with pytest.raises(OSError):
                await shake_hands(port, stranger)
        live.swap(new_leaf(), old.certificate_pem + new.certificate_pem)
        await shake_hands(port, by_old)
        await shake_hands(port, by_new)
        live.swap(new_leaf(), new.certificate_pem)
        await shake_hands(port, by_new)
        with pytest.raises(OSError):
            await shake_hands(port, by_old, session=let_in.session)


async def test_verified_clients_speak_tls_1_3_whose_sessions_can_be_switched_off(tmp_path):
    live = LiveTlsContext(verify_clients=True)
    live.swap(new_leaf(), CA)
    client = presenting(CA, new_leaf(), tmp_path / "client")
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with listening(live.listener) as port:
        with pytest.raises(OSError):
            await shake_hands(port, client)


def test_unreadable_client_cas_keep_what_was_served():
    live = LiveTlsContext(verify_clients=True)
    with pytest.raises(CertificateError, match="client CA: holds no certificate"):
        live.swap(new_leaf(), b"not PEM")
    assert not live.serving


def test_swaps_under_load_fail_no_handshake_though_one_in_five_pairs_is_broken():
    async def scenario():
        live = live_with(new_leaf())
        done: asyncio.Queue[None] = asyncio.Queue()
        async with listening(live.listener) as port, asyncio.TaskGroup() as clients:
            dialling = [clients.create_task(keep_dialling(port, done)) for _ in range(4)]
            refused = await swap_twenty_times(live, done)
            for client in dialling:
                client.cancel()
        assert refused == 4

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


async def keep_dialling(port: int, done: asyncio.Queue[None]) -> None:
    """Handshakes one after the other; a failed one ends the test."""
    client = trusting(CA)
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        done.put_nowait(None)
        writer.close()
        await writer.wait_closed()


async def swap_twenty_times(live: LiveTlsContext, done: asyncio.Queue[None]) -> int:
    """Swaps refused; each one runs during the handshakes, and some more are done before the next."""
    refused = 0
    for number in range(20):
        try:
            await asyncio.to_thread(live.swap, mismatched() if number % 5 == 4 else new_leaf())
        except CertificateError:
            refused += 1
        for _ in range(done.qsize() + 5):
            await done.get()
    return refused
