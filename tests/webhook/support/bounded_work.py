"""Sends a body that may be of any size, and counts the work that its answer takes."""

import json
import sys

from ledger.placement_request import Placement
from tests.webhook.support import default_policies
from tests.webhook.support.reviewed_again import finish, patch_of
from webhook.admission import sizes
from webhook.review import Reviewer
from webhook.rules import Rules

MAX_LINES = 200_000
"""Lines of Python that a review may run, whatever the size of its pod."""


class Roomy:
    """A placer with room for every pod, on one GPU."""

    def place(self, ask):
        return Placement((3,), 81920, ("81920",), "node", ask.accounting.reservation)

    def release(self, _reservation):
        """There is always room."""


class Lines:
    """Counts the lines of Python that run while it is entered, in every module."""

    def __enter__(self):
        self.count = 0
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, _frame, _event, _value):
        self.count += 1
        return self._trace


def check(body, policy_set=None):
    """Send a body, and return its outcome."""
    outcomes = []
    policies = policy_set or default_policies()
    reviewer = Reviewer(
        lambda: policies, Rules(), Roomy(), lambda _request, made, _seconds: outcomes.append(made)
    )
    with Lines() as lines:
        answer = finish(reviewer.review(body))
    assert lines.count <= MAX_LINES
    assert outcomes[0].error is None
    check_answer(answer)
    return outcomes[0]


def check_answer(answer):
    """An answer takes little room, and is one clear line or a short patch."""
    assert len(answer) < 2**20
    response = json.loads(answer)["response"]
    if response["allowed"]:
        assert len(patch_of(answer)) <= sizes.MAX_OPERATIONS
    else:
        assert 0 < len(response["status"]["message"]) <= 200
        assert response["status"]["message"].isprintable()
