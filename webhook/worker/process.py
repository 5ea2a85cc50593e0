"""A worker from the webhook's side: a copy of this process, with its policies, code and caches."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from webhook.worker.child import isolate
from webhook.worker.limits import MAX_MESSAGE_BYTES
from webhook.worker.messages import LENGTH_BYTES

_PART_BYTES = 2**18
"""Maximum bytes of one read."""


class EndedError(Exception):
    """The worker ended before it sent the expected message."""


class ProtocolError(EndedError):
    """The worker sent an invalid message."""


class Ended(NamedTuple):
    """How a worker process ended."""

    signal: int
    """Number of the signal that killed it; 0 for none."""
    cpu_seconds: float


class WorkerProcess:
    """A forked process with a pipe to it. It must be ended."""

    def __init__(self, work: Callable[[socket.socket], None], cpu_seconds: float) -> None:
        """Start it.

        Args:
            work: what it does, with its end of the pipe.
            cpu_seconds: CPU time after which the kernel kills it.

        Raises:
            OSError: the system has no more processes, memory or descriptors.
        """
        self._channel, theirs = socket.socketpair()
        with theirs:
            try:
                self._pid = _fork(work, theirs, cpu_seconds)
            except BaseException:
                self._channel.close()
                raise
        self._channel.settimeout(0)
        self._ending: asyncio.Task[Ended] | None = None

    async def receive(self) -> bytes:
        """Wait for its next message.

        Raises:
            EndedError: it ended.
            ProtocolError: the message is too long.
        """
        size = int.from_bytes(await self._exactly(LENGTH_BYTES))
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"its message has {size} bytes")
        return await self._exactly(size)

    async def send(self, message: bytes) -> None:
        """Send it a message.

        Raises:
            EndedError: it ended.
        """
        try:
            await asyncio.get_running_loop().sock_sendall(self._channel, message)
        except OSError as error:
            raise EndedError(f"its pipe is broken: {error}") from error

    def end(self) -> asyncio.Task[Ended]:
        """End it if it runs, and return the task that cleans up after it; always the same task."""
        if self._ending is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._ending = asyncio.ensure_future(self._reap())
        return self._ending

    async def _reap(self) -> Ended:
        # Its pipe closes after the process has freed its memory, so the loop does not block in wait4.
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(self._channel, _PART_BYTES):
                pass
        self._channel.close()
        _, status, used = os.wait4(self._pid, 0)  # noqa: ASYNC222 its pipe is closed, so it has almost ended
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return Ended(number, used.ru_utime + used.ru_stime)

    async def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = await asyncio.get_running_loop().sock_recv(self._channel, min(size, _PART_BYTES))
            except OSError as error:
                raise EndedError(f"its pipe is broken: {error}") from error
            if not part:
                raise EndedError("it sent nothing")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _fork(work: Callable[[socket.socket], None], channel: socket.socket, cpu_seconds: float) -> int:
    """Return the process id of a child that only does the work.

    Signals are blocked meanwhile: the child's would reach this process, through the wakeup descriptor.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid:
            return pid
        _be_worker(work, channel, cpu_seconds)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    raise AssertionError("a worker never returns")


def _be_worker(work: Callable[[socket.socket], None], channel: socket.socket, cpu_seconds: float) -> None:
    try:
        isolate(channel, cpu_seconds)
        work(channel)
    finally:
        os._exit(0)
