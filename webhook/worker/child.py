"""What runs in a worker: the same decision as in the event loop, alone in a process that may be ended."""

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
    """Leave everything of the process that this one is a copy of, but its memory and `channel`.

    From here on the kernel ends this process when it has used its CPU, in whatever code it is.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    # Whoever stops the webhook lets it answer what it has begun.
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
    # It ends before garbage matters, and to look for it would copy all memory.
    gc.disable()


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def decide(channel: socket.socket, body: bytes, dispatcher: Dispatcher) -> None:
    """Decide one review; where that takes a placement, ask for it and wait."""
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
        raise EOFError("the webhook's process is gone, or needs no answer any more")
    return received
