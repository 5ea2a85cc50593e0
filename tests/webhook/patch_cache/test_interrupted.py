"""A review may be interrupted anywhere: whatever the caches kept of it, later reviews are decided as ever."""

import sys

from tests.effort import by_turns
from tests.webhook.support import as_body, default_policies, pod, review_of
from tests.webhook.support.many_policies import Roomy
from webhook.inline_budget import OverrunError
from webhook.patch_cache.cache import _BYTES_OF_A_TEMPLATE_KEY, _BYTES_OF_AN_ENTRY, PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

BODY = as_body(review_of(pod(initContainers=[{"name": "first", "image": "a:1"}])))
REVIEWS = 3
"""Of a pod whose form nobody knows, of one that is learnt by it, and of one that is known."""


class Interrupter:
    """Ends what runs at the given line of Python that is counted, as a signal would."""

    def __init__(self, at):
        self.lines = 0
        self._at = at

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, frame, event, _value):
        name = frame.f_code.co_filename
        if not any(part in name for part in ("/patch_cache/cache", "/harmless_names", "/policy_resolver")):
            return self._trace if "/webhook/" in name or "/policies/" in name else None
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                raise OverrunError
        return self._trace


def reviewer():
    policies = default_policies()
    placer = Roomy((3, 81920, "node", ("81920",)))
    return Reviewer(lambda: policies, PatchCache(Rules()), placer, lambda *_: None)


def answers(found, reviews=REVIEWS):
    return [found.answer(BODY) for _ in range(reviews)]


def check(at):
    """Interrupt a review at a line, and then decide as if nothing had been; return whether it was."""
    found, interrupter = reviewer(), Interrupter(at)
    with interrupter:
        said = answers(found)
    found._overruns.clear()
    assert answers(found) == EXPECTED
    cache = found.dispatcher.decider
    kept = [entry for entry in cache._entries.values() if entry is not None]
    templates = [
        _BYTES_OF_A_TEMPLATE_KEY + each.size
        for entry in kept
        for each in entry._templates.values()
        if each is not None
    ]
    assert cache._bytes >= len(kept) * _BYTES_OF_AN_ENTRY + sum(templates)
    return any(b"too-costly" in answer for answer in said)


EXPECTED = answers(reviewer())


EVERY = by_turns("webhook", usual=3, full=1)
"""A review is interrupted at each so-many-th line."""


def test_a_review_that_is_interrupted_at_any_line_of_the_caches_leaves_them_whole():
    at = 1
    while check(at):
        at += EVERY
    assert at > 100
