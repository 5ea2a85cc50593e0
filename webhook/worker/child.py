"""The code of a worker: the same decision as in the event loop, in a process that may be killed."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
from contextlib import suppress
from pathlib import Path

from webhook.admission.denial import Denial, Reason
from webhook.admission_review import UnreadableReviewError, decode
from webhook.decision import Outcome, Pending
from webhook.dispatch import TOO_COSTLY, Dispatcher
from webhook.worker.limits import MEMORY_BYTES, NICENESS
from webhook.worker.messages import LENGTH_BYTES, Ask, Decided, framed, read_placement


def isolate(channel: socket.socket, cpu_seconds: float) -> None:
    """Drop everything inherited from the parent process except its memory and `channel`.

    From here on the kernel kills this process when it has used its CPU, whatever code it runs.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    # When the webhook is stopped, it still answers what it has begun.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for name in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if name != channel.fileno():
            with suppress(OSError):
                os.close(name)
    os.nice(NICENESS)
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    # The process ends before garbage matters, and a collection would copy all memory.
    gc.disable()


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def decide(channel: socket.socket, body: bytes, dispatcher: Dispatcher) -> None:
    """Decide one review; if that takes a placement, request it and wait."""
    try:
        outcome = _outcome(channel, body, dispatcher)
    except UnreadableReviewError as error:
        outcome = Outcome.of(Denial.of(Reason.UNREADABLE, str(error)), None)
    except MemoryError:
        outcome = Outcome.of(TOO_COSTLY, None)
    channel.sendall(framed(Decided.of(outcome)))


def _outcome(channel: socket.socket, body: bytes, dispatcher: Dispatcher) -> Outcome:
    request = decode(body, dispatcher.pod_type)
    begun = dispatcher.begin(request)
    if not isinstance(begun, Pending):
        return begun
    channel.sendall(framed(Ask(begun.request)))
    size = int.from_bytes(_receive(channel, LENGTH_BYTES))
    return dispatcher.finish(request, begun, read_placement(_receive(channel, size)))


def _receive(channel: socket.socket, size: int) -> bytes:
    received = channel.recv(size, socket.MSG_WAITALL)
    if len(received) < size:
        raise EOFError("the webhook's process has ended, or needs no answer any more")
    return received
