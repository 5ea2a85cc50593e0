"""Real TLS handshakes on loopback, against a context that a listener holds."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from certs.values import KeyPair
from testbed.certificate_files import write_pair
from testbed.process import WAIT_S


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a client saw."""

    leaf_der: bytes
    resumed: bool
    session: ssl.SSLSession | None


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """A server on a free port that answers one byte with one byte; yields the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def shake_hands(
    port: int, client: ssl.SSLContext, name: str = "localhost", session: ssl.SSLSession | None = None
) -> Handshake:
    """Connect as `name`, exchange a byte each way, close in order.

    Raises OSError (ssl.SSLError is one) when the server refuses: asyncio may close before its alert is out.
    """
    return await asyncio.to_thread(_shake_hands, port, client, name, session)


def _shake_hands(port, client, name, session):
    plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    with plain, client.wrap_socket(plain, server_hostname=name, session=session) as connection:
        connection.sendall(b"?")
        if connection.recv(1) != b"?":
            raise ConnectionResetError("closed by the server after the client's last flight")
        seen = Handshake(
            connection.getpeercert(binary_form=True), connection.session_reused, connection.session
        )
        connection.unwrap().close()
        return seen


def trusting(ca_pem: bytes) -> ssl.SSLContext:
    """A client's context that trusts nothing but `ca_pem`."""
    return ssl.create_default_context(cadata=ca_pem.decode())


def presenting(ca_pem: bytes, pair: KeyPair, folder) -> ssl.SSLContext:
    context = trusting(ca_pem)
    context.load_cert_chain(*write_pair(folder, pair))
    return context
