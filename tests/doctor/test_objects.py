"""What the doctor reads of an object."""

from doctor.objects import complaint

REFUSED = b'{"level": "error", "event": "node facts are not written", "error": "the API server answered 403"}'


def test_of_a_log_the_last_complaint_counts_whatever_other_lines_hold():
    lines = [
        b'{"level": "error", "error": "before"}',
        REFUSED,
        b'{"level": "info"}',
        b"Traceback",
        b'{"event": "\xff"}',
    ]
    assert complaint(b"\n".join(lines)) == "node facts are not written: the API server answered 403"
    assert complaint(b"") is None
