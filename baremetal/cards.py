"""The cards of this machine: which ones are given, and which are out of service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from agent.gpu import Gpu, GpuSource

CHECK_SECONDS = 5.0


class CardsError(Exception):
    """The cards that the command line names cannot be given; the text says why."""


def chosen(
    gpus: Sequence[Gpu], wanted: Collection[int] | None, known: Collection[int] = ()
) -> tuple[Gpu, ...]:
    """Return the cards to give.

    Args:
        gpus: that the driver lists.
        wanted: their numbers; None for all that are not in MIG mode.
        known: numbers that were given before: one that is lost since is left out, and not refused.

    Raises:
        CardsError: there is none, or one that is named is not there or is in MIG mode.
    """
    by_index = {gpu.index: gpu for gpu in gpus}
    if wanted is None:
        found = tuple(gpu for gpu in gpus if not gpu.mig)
    else:
        if missing := sorted(set(wanted) - by_index.keys() - set(known)):
            there = ", ".join(map(str, sorted(by_index))) or "no card"
            raise CardsError(f"--gpus names {missing[0]}, which the driver does not list: it has {there}")
        found = tuple(by_index[index] for index in sorted(set(wanted) & by_index.keys()))
        if in_mig := [gpu.index for gpu in found if gpu.mig]:
            raise CardsError(f"--gpus names {in_mig[0]}, which is in MIG mode: turn it off, or leave it out")
    if not found:
        raise CardsError("the driver lists no card that could be given")
    return found


class CardWatch:
    """Asks the driver for the condition of cards, in a thread of its own: a lost card can block who asks.

    Args:
        source: the driver.
        cards: that are asked for.
        changed: called, in that thread, when `faults` are others.
    """

    def __init__(self, source: GpuSource, cards: Sequence[Gpu], changed: Callable[[], None]) -> None:
        self.faults: Mapping[int, str] = {}
        """Why cards are out of service, by index, as of the last look."""
        self._source = source
        self._cards = cards
        self._changed = changed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cards", daemon=True)

    def start(self) -> None:
        """Look once, then go on in the thread."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that the driver does not answer is left behind."""
        self._stopping.set()
        self._thread.join(timeout=CHECK_SECONDS)

    def look(self) -> None:
        """Ask for every card once."""
        conditions = {card.index: self._source.condition_of(card.uuid) for card in self._cards}
        faults = {index: each.why_unhealthy for index, each in conditions.items()}
        found = {index: why for index, why in faults.items() if why is not None}
        if found != self.faults:
            self.faults = found
            self._changed()

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_SECONDS):
            self.look()
