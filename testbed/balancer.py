"""One address for several processes: new connections go to those that are ready, as with a Service."""

import itertools
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Self

CHUNK = 65536


class Balancer:
    """Relays TCP while the context is open; connections that are there stay with their process.

    Args:
        backends: Port of each process on the loopback device, and whether it is ready at the moment.
    """

    def __init__(self, backends: Mapping[int, Callable[[], bool]]) -> None:
        self._backends = backends
        self._turns = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        """For clientConfig.url."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}/mutate"

    def __enter__(self) -> Self:
        """Listen."""
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        for each in (self._listener, *self._connections):
            with suppress(OSError):  # the other side may have closed it
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._relay, args=[client], daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        ready = [port for port, is_ready in self._backends.items() if is_ready()]
        try:
            other = socket.create_connection(("127.0.0.1", ready[next(self._turns) % len(ready)]))
        except (OSError, ZeroDivisionError):
            client.close()
            return
        self._connections += [client, other]
        for one, another in ((client, other), (other, client)):
            Thread(target=_copy, args=[one, another], daemon=True).start()


def _copy(reader: socket.socket, writer: socket.socket) -> None:
    with suppress(OSError):
        while data := reader.recv(CHUNK):
            writer.sendall(data)
    with suppress(OSError):
        writer.shutdown(socket.SHUT_WR)
