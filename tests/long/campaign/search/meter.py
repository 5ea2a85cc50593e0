"""What a review costs: how long it holds the event loop, and which lines it runs how often."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol, Self

from service.metrics import new_registry
from tests.long.campaign.search.settings import Setting
from webhook.admission_review import UnreadableReviewError
from webhook.metrics import WebhookMetrics
from webhook.worker.workers import Workers

ROOT = Path(__file__).parents[4]
REVIEWS = 2
"""Of the same body by one reviewer: by the rules, and to learn its form."""
PRODUCT = tuple(f"{ROOT / each}/" for each in ("kube", "ledger", "modes", "policies", "webhook"))


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one body."""

    longest: float
    """Milliseconds of CPU of the longest step, or another count."""
    total: float
    outcome: str = ""


class Meter(Protocol):
    """Measures a body."""

    def measure(self, name: str, setting: Setting, body: bytes, reviews: int = REVIEWS) -> Cost:
        """Return what the dearest of so many reviews of a body costs under a setting."""

    def explore(self, name: str, setting: Setting, body: bytes) -> Cost:
        """Review a small body once, all of it in this thread: its lines are counted."""

    def hottest(self, name: str, setting: Setting, body: bytes) -> str:
        """Return where in the product most of it goes."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop that notes the CPU of its longest step."""

    longest = 0

    def _run_once(self) -> None:
        start = time.thread_time_ns()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, time.thread_time_ns() - start)


class CpuMeter:
    """Measures CPU of the thread that the webhook's event loop runs in; what a worker pays counts nothing.

    Whoever is done with it leaves its `with`, which closes its event loop.
    """

    def __init__(self) -> None:
        self._ledgers: dict[str, Any] = {}
        self._loop = SteppedLoop()
        self.workers = Workers(WebhookMetrics(new_registry()).workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.close()

    def measure(self, name: str, setting: Setting, body: bytes, reviews: int = REVIEWS) -> Cost:
        """Review a body by a reviewer that has met none; the dearest of its reviews counts."""
        with self.workers.budget.enforced():
            return self._measure(name, setting, body, reviews, self.workers)

    def explore(self, name: str, setting: Setting, body: bytes) -> Cost:
        """Review a small body once, without a budget."""
        return self._measure(name, setting, body, 1, None)

    def _measure(
        self, name: str, setting: Setting, body: bytes, reviews: int, workers: Workers | None
    ) -> Cost:
        if name not in self._ledgers:
            self._ledgers[name] = setting.ledger()
        # As in the process, whose heap is small: what the search keeps is walked by no collection.
        gc.freeze()
        outcomes: list[str] = []
        reviewer, placer = setting.reviewer(
            self._ledgers[name],
            lambda _request, made, _seconds: outcomes.append(made.reason.value),
            workers,
        )
        longest = total = 0
        for _ in range(reviews):
            one, all_of_it = self._review(reviewer.answer, body)
            placer.forget()
            longest, total = max(longest, one), max(total, all_of_it)
        return Cost(longest / 1e6, total / 1e6, outcomes[-1] if outcomes else "unreadable")

    def _review(self, answer: Callable[[bytes], Any], body: bytes) -> tuple[int, int]:
        self._loop.longest = 0
        start = time.thread_time_ns()
        first = self._loop.run_until_complete(_answered(answer, body))
        # To be rid of a worker is the loop's work too, and none may run while another body is measured.
        self._loop.run_until_complete(self.workers.gone())
        return max(first, self._loop.longest), time.thread_time_ns() - start

    def hottest(self, name: str, setting: Setting, body: bytes) -> str:
        """Return where in the product most of a body's time goes."""
        profile = cProfile.Profile()
        profile.enable()
        self._measure(name, setting, body, 1, self.workers)
        profile.disable()
        found: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        ours = {key: value for key, value in found.items() if key[0].startswith(PRODUCT)}
        if not ours:
            return "unknown"
        for key in ours:
            ours[key] = _own_time(key, found)
        file, line, function = max(ours, key=lambda key: ours[key])
        return f"{file.removeprefix(f'{ROOT}/')}:{line} {function}"


async def _answered(answer: Callable[[bytes], Any], body: bytes) -> int:
    """Answer as a connection does; return the nanoseconds until it was answered or had to be waited for."""
    start = time.thread_time_ns()
    try:
        answering = answer(body)
    except UnreadableReviewError:
        answering = b""
    first = time.thread_time_ns() - start
    if not isinstance(answering, bytes):
        with suppress(UnreadableReviewError):
            await answering
    return first


def _own_time(key: tuple[str, int, str], found: dict[tuple[str, int, str], Any]) -> float:
    """Time of a function with what it called that is not ours: a comparison is its caller's."""
    own = found[key][2]
    for other, (_, _, _, _, callers) in found.items():
        if not other[0].startswith(PRODUCT) and key in callers:
            own += callers[key][3]
    return float(own)


class LineCounts:
    """Counts how often each line of the product runs while it is entered."""

    def __init__(self, roots: tuple[str, ...] = PRODUCT) -> None:
        """Count what lies below `roots`."""
        self._roots = roots
        self.counts: Counter[tuple[CodeType, int]] = Counter()
        self._ours: dict[CodeType, bool] = {}

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, _event: str, _value: object) -> Any:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(self._roots)
        return self._line if ours else None

    def _line(self, frame: FrameType, event: str, _value: object) -> Any:
        if event == "line":
            self.counts[frame.f_code, frame.f_lineno] += 1
        return self._line
