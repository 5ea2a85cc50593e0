"""A listener as a process has it, in the loop of a test, and raw clients of it."""

import asyncio
import socket
from contextlib import asynccontextmanager

import uvloop

from service.http.connection import Server
from service.http.limits import BufferedBytes, Limits
from service.http.sockets import bind
from testbed.process import WAIT_S

GET = b"GET /livez HTTP/1.1\r\nhost: here\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
POST = b"POST /mutate HTTP/1.1\r\nhost: here\r\n"
MIB = 1024 * 1024


def post(size, *, sent=None):
    return POST + b"content-length: %d\r\n\r\n" % size + b"x" * (size if sent is None else sent)


def status(answer):
    return int(answer.split(b" ", 2)[1])


def answering(status, *parts, length=None, then=None):
    """An app that sends an answer in parts, after each of which it may wait."""

    async def app(_scope, receive, send):
        headers = [(b"content-length", b"%d" % length)] if length is not None else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            if then is not None:
                await then(receive)
        await send({"type": "http.response.body"})

    return app


class App:
    """Reads a body to its end, says its length, and remembers what it was asked; may wait before either."""

    def __init__(self):
        self.asked = []
        self.gone = 0
        self.go = asyncio.Event()
        self.go.set()
        self.reads = asyncio.Event()
        self.reads.set()

    async def __call__(self, scope, receive, send):
        self.asked.append(scope["path"])
        await self.reads.wait()
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone += 1
                return
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        await self.go.wait()
        said = b"%d" % size
        headers = [(b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})


class Client:
    """One connection, from an address of its own if it is given one."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def say(self, text):
        self.writer.write(text)
        await self.writer.drain()

    async def hear(self):
        """One answer whole, with its length; as much as came where the connection ended before."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return head + await self.reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            return error.partial
        except ConnectionError:
            return b""

    async def ask(self, text=GET):
        await self.say(text)
        return await self.hear()

    async def ended(self):
        """Wait for the end; what came before it."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def leave(self):
        self.writer.transport.abort()


class Served:
    """What a test asks of a listener."""

    def __init__(self, server, held, app, port):
        self._server = server
        self.held = held
        self.app = app
        self.port = port
        self.clients = []

    @property
    def acceptor(self):
        return self._server.acceptor

    @property
    def connections(self):
        return tuple(self._server.state.connections)

    def make(self, place):
        """The protocol of one connection."""
        return self._server.acceptor.make(place)

    async def stop(self):
        await self._server.stop()

    @property
    def is_free(self):
        """Whether there is no connection, nor an app that answers one."""
        return self._server.acceptor.count == 0 and not self._server.state.tasks

    async def connect(self, address="127.0.0.1", **tls):
        client = await dial(self.port, address, **tls)
        self.clients.append(client)
        return client


async def dial(port, address="127.0.0.1", **tls):
    """A client from an address of this machine."""
    plain = socket.socket()
    try:
        plain.setblocking(False)  # noqa: FBT003 as the socket module has it
        plain.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
        return Client(*await asyncio.open_connection(sock=plain, **tls))
    except BaseException:
        plain.close()
        raise


@asynccontextmanager
async def listening(*, tls=None, clients=None, app=None, **limits):
    app = app or App()
    bounds = Limits(**limits)
    held = BufferedBytes(bounds.held_bytes)
    bound = bind("127.0.0.1", 0)
    server = Server(app, bound, tls, limits=bounds, held=held, clients=clients)
    server.acceptor.start()
    served = Served(server, held, app, bound.getsockname()[1])
    try:
        yield served
    finally:
        for client in served.clients:
            client.leave()
        if isinstance(app, App):
            app.go.set()
            app.reads.set()
        server.acceptor.close()
        server.acceptor.end()
        await until(lambda: served.is_free)


async def until(condition):
    while not condition():  # noqa: ASYNC110 nobody sets an event for what is seen from outside
        await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(**options):
    """A listener of a test, which fails if anything else breaks in its loop."""
    broken = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    async with asyncio.timeout(WAIT_S), listening(**options) as served:
        yield served
    assert broken == []


def run(test, **options):
    """Run a test of a listener on the loop of our processes."""

    async def main():
        async with serving(**options) as served:
            await test(served)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
