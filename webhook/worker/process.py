"""A worker as the webhook's process sees it: a copy of this process, with its policies, code and caches."""

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
"""Read in one go."""


class EndedError(Exception):
    """The worker ended before it said what was waited for."""


class NonsenseError(EndedError):
    """It said what no worker says."""


class Ended(NamedTuple):
    """How a worker ended."""

    signal: int
    """Number of the signal that ended it; 0 for none."""
    cpu_seconds: float


class WorkerProcess:
    """A forked process with a pipe to it. It must be ended."""

    def __init__(self, work: Callable[[socket.socket], None], cpu_seconds: float) -> None:
        """Start it.

        Args:
            work: what it does, with its end of the pipe.
            cpu_seconds: after which the kernel ends it.

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
            NonsenseError: the message is too long to be one.
        """
        size = int.from_bytes(await self._exactly(LENGTH_BYTES))
        if size > MAX_MESSAGE_BYTES:
            raise NonsenseError(f"its message has {size} bytes")
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
        """End it if it runs, and return the task that leaves nothing of it; always the same."""
        if self._ending is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._ending = asyncio.ensure_future(self._reap())
        return self._ending

    async def _reap(self) -> Ended:
        # Its pipe ends when the process has given its memory back, so that the loop waits for nothing then.
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(self._channel, _PART_BYTES):
                pass
        self._channel.close()
        _, status, used = os.wait4(self._pid, 0)  # noqa: ASYNC222 it is all but gone, as its pipe is
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
                raise EndedError("it said nothing")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _fork(work: Callable[[socket.socket], None], channel: socket.socket, cpu_seconds: float) -> int:
    """Return the process id of a child that does the work and nothing else.

    Signals wait meanwhile: the child's would reach this process, by the descriptor that tells it of signals.
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
