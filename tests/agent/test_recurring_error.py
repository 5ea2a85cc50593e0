"""What is tried again and again says once why it fails."""

import pytest

from agent.recurring_error import RecurringError


def test_an_error_is_logged_again_when_it_is_another_or_after_a_good_attempt():
    gone, full, said = OSError("gone"), OSError("full"), []
    failed = RecurringError(lambda event, error: said.append((event, error)), "it fails", OSError)
    for each in (gone, gone, full, full, gone, None, None, gone):
        with failed:
            if each is not None:
                raise each
    assert said == [("it fails", each) for each in ("gone", "full", "gone", "gone")]
    assert failed.text == "gone"
    with pytest.raises(KeyError), failed:
        raise KeyError("uid")
