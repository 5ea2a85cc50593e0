"""Work in the event loop that takes too long is ended, wherever it is; nothing else ever is."""

import re
import signal
import threading

import pytest

from webhook.inline_budget import NEW, InlineBudget, OverrunError


class Counted(InlineBudget):
    """Counts the interrupts."""

    __slots__ = ("interrupts",)

    def __init__(self):
        super().__init__()
        self.interrupts = 0

    def _interrupt(self, number, frame):
        self.interrupts += 1
        super()._interrupt(number, frame)


def loop_for_ever():
    while True:
        pass


def search_for_ever():
    re.fullmatch(r"(a*)*b", "a" * 60)


@pytest.mark.parametrize("work", [loop_for_ever, search_for_ever])
def test_work_without_an_end_is_ended(work):
    budget = InlineBudget()
    with budget.enforced():
        budget.since = NEW
        with pytest.raises(OverrunError):
            work()
        budget.since = None


def test_code_that_drops_the_exception_is_ended_again():
    budget, dropped = InlineBudget(), 0
    with budget.enforced():
        budget.since = NEW
        while dropped < 2:
            try:
                loop_for_ever()
            except OverrunError:
                dropped += 1
        budget.since = None
    assert dropped == 2


def test_what_is_none_of_its_work_is_never_ended():
    budget = Counted()
    with budget.enforced():
        while budget.interrupts < 4:
            pass
    assert budget.since is None


def test_two_short_pieces_of_work_are_not_one_long_one():
    budget = Counted()
    with budget.enforced():
        while budget.interrupts < 6:
            before = budget.interrupts
            budget.since = NEW
            while budget.interrupts == before:
                pass
            budget.since = None
    assert budget.interrupts >= 6


def test_it_ends_with_its_context():
    before = signal.getsignal(signal.SIGPROF)
    with InlineBudget().enforced():
        assert signal.getsignal(signal.SIGPROF) != before
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0.0


def test_in_another_thread_there_is_none():
    timers = []

    def keep():
        with InlineBudget().enforced():
            timers.append(signal.getitimer(signal.ITIMER_PROF)[0])

    thread = threading.Thread(target=keep)
    thread.start()
    thread.join()
    assert timers == [0.0]
