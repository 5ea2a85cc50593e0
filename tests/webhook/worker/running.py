"""Reviews that workers decide, by whatever decider a test needs."""

import asyncio
import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path

from prometheus_client import CollectorRegistry

from ledger.placement_request import Placement
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from tests.ledger.cluster import request_of
from tests.webhook.support import as_body, default_policies, pod, review_of
from webhook.admission.denial import Denial, Reason
from webhook.admission_request import PodObject
from webhook.decision import Pending
from webhook.metrics import WebhookMetrics
from webhook.placing.placer import Placed
from webhook.review import Reviewer
from webhook.worker.workers import Workers

PLACED = Placement((3,), 81920, ("81920",), "node", "a-reservation")
BODY = as_body(review_of(pod()))


def code(outcome):
    return outcome.reason.value


class Deciding:
    """A decider of one function; what it says becomes a denial's line."""

    pod_type = PodObject

    def __init__(self, decide):
        self._decide = decide

    def begin(self, _request, resolved):
        return self._said(resolved.policy)

    def _said(self, policy: EffectivePolicy):
        said = self._decide()
        return said if isinstance(said, Denial | Pending) else Denial.of(Reason.LABEL, str(said))


class Asking(Deciding):
    """One that asks for a placement first."""

    def begin(self, _request, resolved):
        request = request_of(Fraction(4, 8), reservation="a-reservation")
        return Pending(request, lambda _: self._said(resolved.policy), resolved.policy)


class Placer:
    """Answers every request alike, and writes down what is released."""

    def __init__(self, answer: Placed | asyncio.Future = PLACED):
        self.answer = answer
        self.asked = 0
        self.released = []

    def place(self, _request):
        self.asked += 1
        return self.answer

    def release(self, reservation):
        self.released.append(reservation)


class Bench:
    """A reviewer with workers, all that it says, and what is left of it afterwards."""

    def __init__(self, decider, placer=None):
        self.placer = placer or Placer()
        self.outcomes = []
        self.registry = CollectorRegistry()
        self.workers = Workers(WebhookMetrics(self.registry).workers)
        policies = default_policies()
        self.reviewer = Reviewer(lambda: policies, decider, self.placer, self._observe, self.workers)

    def _observe(self, _request, outcome, _seconds):
        self.outcomes.append(outcome)

    async def response(self, body=BODY):
        answer = await self.reviewer.review(body)
        await self.workers.gone()
        return json.loads(answer)["response"]

    def count(self, end):
        return self.registry.get_sample_value("fraction_injector_worker_reviews_total", {"end": end})


def decide(bench, body=BODY):
    """The response to one review, and its outcome; no worker is left."""
    with no_child_is_left():
        response = asyncio.run(bench.response(body))
    (outcome,) = bench.outcomes
    if not response["allowed"]:
        message = response["status"]["message"]
        assert 0 < len(message) <= 200
        assert message.isprintable()
    return response, outcome


@contextmanager
def no_child_is_left():
    """Fail if a child process was begun and is still there; fixtures of other tests have theirs."""
    before = children()
    yield
    assert children() <= before


def children():
    """Process IDs of this process's children, zombies included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended while we looked
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(stat.parent.name))
    return found
