"""Hostile connections, drawn at random: a campaign of any length (bench/hostile.py has a long one).

Against a listener over TLS, as the webhook has it, with bystanders who ask all the while. What is wanted:
every bystander is answered, nothing is left open or held, and nothing is raised.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import uvloop

from certs.live_context import LiveTlsContext
from certs.self_signed import self_signed
from testbed.bystander import Bystander
from testbed.listening import Client, dial, listening, until

GOOD = (
    b"POST /mutate?timeout=5s HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b"
)
BODIES = [b'{"a":"%b"}' % (b"x" * size) for size in (1, 1000, 30_000, 200_000)]
LIMITS = {
    "connections": 40,
    "head_seconds": 0.2,
    "body_seconds": 0.3,
    "idle_seconds": 30,
    "unread_seconds": 0.5,
    "closing_seconds": 0.1,
    "held_bytes": 2 << 20,
}
"""Far less than a process has, so that each of them is met often: but for times that a client in the same
process might pass by waiting for its turn."""
AT_ONCE = 48
BYSTANDERS = 4


class Errors(logging.Handler):
    """Keeps what uvicorn logs of errors: an exception in an app is one."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        self.found.append(f"{record.getMessage()} {record.exc_info}")


class Campaign:
    """Connections drawn from one seed; `dial` opens one from an address."""

    def __init__(self, dial, tls, seed, bodies=(b"{}",), patience=10):
        self.chance = random.Random(seed)  # noqa: S311 no secret
        self.dial = dial
        self.tls = tls
        self.bodies = bodies
        self.patience = patience
        self.done = Counter()
        self._open = []

    async def run(self, number, at_once=AT_ONCE):
        """Attack so many times."""
        numbers = iter(range(number))

        async def attack_on():
            for _ in numbers:
                await self._attack()

        await asyncio.gather(*(attack_on() for _ in range(at_once)))
        for client in self._open:
            client.leave()

    async def _attack(self):
        kind = self.chance.choice(KINDS)
        self.done[kind.__name__] += 1
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(self.patience):
                await kind(self)
        self._open = [each for each in self._open if not each.writer.transport.is_closing()]

    async def _plain(self):
        client = await self.dial(f"127.0.0.{self.chance.randint(2, 5)}")
        self._open.append(client)
        return client

    async def _hostile(self):
        client = await self.dial(f"127.0.0.{self.chance.randint(2, 5)}", **self.tls)
        self._open.append(client)
        return client

    def _good(self):
        body = self.chance.choice(self.bodies)
        return GOOD % (len(body), body)

    async def _pieces(self, client: Client, text: bytes, pieces: int = 0) -> None:
        """Send a text cut at random."""
        cuts = sorted(
            self.chance.randrange(len(text) + 1) for _ in range(pieces or self.chance.randint(0, 6))
        )
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            client.writer.write(text[start:end])
            await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.02]))

    async def _leave(self, client: Client) -> None:
        """Go in one of the ways in which clients go."""
        way = self.chance.randrange(4)
        if way == 0:
            client.leave()
        elif way == 1:
            client.writer.close()
        elif way == 2:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.chance.uniform(0, 0.5)):
                    await client.ended()
            client.leave()
        else:
            await client.ended()
            client.leave()


async def split_request(self):
    client, body = await self._hostile(), b"{" + b"x" * self.chance.choice([0, 10, 70_000, 300_000])
    await self._pieces(client, GOOD % (len(body), body))
    await self._leave(client)


async def pipeline(self):
    client = await self._hostile()
    first = self.chance.choice([self._good(), GOOD % (1, b"x"), b"GET / HTTP/1.1\r\n\r\n"])
    await self._pieces(client, first * self.chance.choice([2, 10, 200]))
    await self._leave(client)


async def oversize_head(self):
    client = await self._hostile()
    head = self.chance.choice(
        [
            b"GET /" + b"x" * 50_000,
            b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: v\r\n" % number for number in range(200)),
            b"GET / HTTP/1.1\r\nh: " + b"v" * 200_000,
            b"GET / HTTP/1.1\r\n" + b"n" * 200_000,
        ]
    )
    await self._pieces(client, head + self.chance.choice([b"", b"\r\n\r\n"]))
    await self._leave(client)


async def slow(self):
    client, text = await self._hostile(), self._good()
    await client.say(text[: self.chance.randrange(1, len(text))])
    await client.ended()
    client.leave()


async def chunks(self):
    client = await self._hostile()
    size = self.chance.choice(
        [b"2", b"2;" + b"e" * 100_000, b"ffffffffffffffff", b"-1", b'2;a="\r\n', b"zz", b""]
    )
    trailer = self.chance.choice(
        [b"", b"a: b\r\n", b"a: b\r\n" * 5000, b"t" * 100_000, b"connection: close\r\n", b"\x00"]
    )
    head = b"POST /mutate HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
    more = self.chance.choice(
        [
            b"",
            b"expect: 100-continue\r\n",
            b"content-length: 5\r\n",
            b"connection: upgrade\r\nupgrade: h2c\r\n",
        ]
    )
    await self._pieces(client, head + more + b"\r\n" + size + b"\r\n{}\r\n0\r\n" + trailer + b"\r\n")
    await self._leave(client)


async def damaged(self):
    client, text = await self._hostile(), bytearray(self._good())
    for _ in range(self.chance.randint(1, 5)):
        text[self.chance.randrange(len(text))] = self.chance.randrange(256)
    await self._pieces(client, bytes(text))
    await self._leave(client)


async def held_body(self):
    client, size = await self._hostile(), self.chance.choice([100_000, 1_000_000])
    await client.say(GOOD % (size, b"{" * (size - 1)))
    await self._leave(client)


async def unread(self):
    client = await self._hostile()
    client.writer.transport.pause_reading()
    await self._pieces(client, self._good())
    await asyncio.sleep(self.chance.uniform(0, 0.1))
    client.leave()


async def broken_tls(self):
    client = await self._plain()
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self.chance.randbytes(200)
    await client.say(
        self.chance.choice([b"", b"\x16", hello[:9], hello, self.chance.randbytes(300), GOOD % (2, b"{}")])
    )
    await asyncio.sleep(self.chance.uniform(0, 0.05))
    await self._leave(client)


async def early_close(self):
    """TCP ends under TLS, with or without a request under way."""
    client = await self._hostile()
    client.writer.write(self.chance.choice([b"", self._good(), GOOD % (5, b"{")]))
    await asyncio.sleep(self.chance.choice([0, 0.001]))
    client.writer.transport.abort()


async def raw_records(self):
    """Records that are none within an open connection, as a renegotiation is to TLS 1.3."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = await self._plain()
    session = self.tls["ssl"].wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            await client.say(outgoing.read())
            if not (came := await client.reader.read(65536)):
                return
            incoming.write(came)
    await client.say(outgoing.read())
    session.write(self._good())
    good = outgoing.read()
    kind = self.chance.choice([b"\x16", b"\x14", b"\x15", b"\x17", b"\x80"])
    await client.say(
        good[: self.chance.randrange(len(good))] + kind + b"\x03\x03\x00\x20" + self.chance.randbytes(32)
    )
    await self._leave(client)


async def aborted_body(self):
    client, size = await self._hostile(), 500_000
    await self._pieces(client, (GOOD % (size, b"{" * size))[: self.chance.randrange(size)])
    client.leave()


KINDS = [
    split_request, pipeline, oversize_head, slow, chunks, damaged, held_body, unread, broken_tls, early_close,
    raw_records, aborted_body,
]  # fmt: skip


async def campaign(number: int, seed: int) -> tuple[Campaign, list[Bystander], list[str]]:
    """Attack a listener of this loop; also gives its bystanders, and what was found."""
    made, context, errors = self_signed(datetime.now(UTC)), LiveTlsContext(), Errors()
    context.swap(made.pair)
    asyncio.get_running_loop().set_exception_handler(lambda _, found: errors.found.append(repr(found)))
    logging.getLogger("uvicorn.error").addHandler(errors)
    async with listening(tls=context.listener, **LIMITS) as served:
        attack, bystanders = await asyncio.to_thread(
            _clients, served.port, made.ca_pem.decode(), number, seed
        )
        async with asyncio.timeout(60):
            await until(lambda: served.is_free)
        if served.held.total:
            errors.found.append(f"{served.held.total} bytes are held of nobody")
    logging.getLogger("uvicorn.error").removeHandler(errors)
    return attack, bystanders, [*errors.found, *(finding for each in bystanders for finding in each.findings)]


def _clients(port, ca_pem, number, seed):
    """All clients, in a loop of their own: what is raised in theirs is not the server's."""
    tls = {"ssl": ssl.create_default_context(cadata=ca_pem), "server_hostname": "localhost"}
    attack = Campaign(partial(dial, port), tls, seed, patience=2)
    bystanders = [
        Bystander(
            partial(dial, port, **tls), BODIES, seed + at, seconds=60, idle_seconds=10,
            may_be_late_after=LIMITS["head_seconds"],
        )
        for at in range(BYSTANDERS)
    ]  # fmt: skip

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        attacking = asyncio.create_task(attack.run(number))
        await asyncio.gather(attacking, *(each.ask_on(attacking.done) for each in bystanders))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return attack, bystanders
