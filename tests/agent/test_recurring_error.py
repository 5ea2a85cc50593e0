"""What is tried again and again says once why it fails."""

import pytest

from agent.recurring_error import RecurringError


def attempts(*results):
    """What is logged of attempts that raise these, or nothing."""
    said = []
    failed = RecurringError(lambda event, error: said.append((event, error)), "it fails", OSError)
    for each in results:
        with failed:
            if each is not None:
                raise each
    return said, failed.text


def test_an_error_is_logged_again_when_it_is_another_or_after_a_good_attempt():
    gone, full = OSError("gone"), OSError("full")
    said, last = attempts(gone, gone, full, full, gone, None, None, gone)
    assert said == [("it fails", each) for each in ("gone", "full", "gone", "gone")]
    assert last == "gone"


def test_other_errors_are_not_kept_back():
    with pytest.raises(KeyError):
        attempts(KeyError("uid"))
