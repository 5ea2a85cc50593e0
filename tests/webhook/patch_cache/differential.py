"""Decides a review through the patch cache and by the rules: the two must agree."""

import base64
import json
import re

from webhook.admission.denial import Reason
from webhook.admission_review import UnreadableReviewError, decode
from webhook.patch_cache.partial_pod import PartialPod
from webhook.review import Reviewer
from webhook.rules import Rules

UNREAD = re.compile(
    r"metadata\.(name|annotations\[\.\.\.\])"
    r"|spec\.(initContainers|containers)\[[0-9]+\]\.(image|env\[[0-9]+\]\.(value|valueFrom))"
)
"""Where the cache does not look, and a wrong type goes unseen. No API server sends one: it has decoded
the object before."""

UP_TO_THE_LEDGER = {Reason.INJECTED, Reason.OVER_QUOTA, Reason.NO_NODE}
"""How the review of a pod ends against which no rule has anything."""


class Recorder:
    """A placer that keeps what was asked, and what came of it."""

    def __init__(self, placer):
        self._placer = placer
        self.asked = []
        self.released = []

    def place(self, ask):
        try:
            answer = self._placer.place(ask)
        except Exception as error:
            self.asked.append((ask, error))
            raise
        self.asked.append((ask, answer))
        return answer

    def release(self, reservation):
        self.released.append(reservation)
        self._placer.release(reservation)

    def take(self):
        """Give what was kept, and keep nothing of it."""
        taken = self.asked, self.released
        self.asked, self.released = [], []
        return taken


class Replay:
    """A placer that answers as another did, in the same order."""

    def __init__(self, answers):
        self._answers = iter(answers)

    def place(self, _ask):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def release(self, _reservation):
        """There is nothing to give back."""


def finish(coroutine):
    """Run a review whose placer never waits, without an event loop: it ends at once."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the review waits")


def entry_of(reviewer, policies, body):
    """The patch cache's entry for a body's pod; None for whatever else a body may hold."""
    cache = reviewer.dispatcher.decider
    try:
        request = decode(body, cache.pod_type)
    except UnreadableReviewError:
        return None
    pod = request.object
    if not isinstance(pod, PartialPod) or pod.labels is None:
        return None
    queue = pod.labels.get("clearml-agent-queue-name"), pod.labels.get("clearml-agent-queue")
    policy = policies.resolve(request.namespace, *queue)
    return cache.find(pod, request.namespace, policy)


def learn(reviewer, policies, body):
    """Show a patch cache the key of a body's pod twice; return whether it has an entry from then on."""
    known = entry_of(reviewer, policies, body) or entry_of(reviewer, policies, body)
    return known is not None


def check_by_rules(body, policies, answered, outcome, calls):
    """Decide a body again, by the rules, and compare all that can be seen of the two."""
    asked, released = calls
    replay = Recorder(Replay([answer for _, answer in asked]))
    outcomes = []
    reviewer = Reviewer(
        lambda: policies, Rules(), replay, lambda _request, made, _seconds: outcomes.append(made)
    )
    by_rules = finish(reviewer.review(body))
    if outcome.reason in UP_TO_THE_LEDGER and is_of_wrong_type_unread(outcomes[0]):
        return
    if outcome.reason is Reason.UNREADABLE and outcomes[0].denial is None and _is_no_pod_by_name(body):
        # What is said to be a Job and looks like a pod no API server sends: the cache looks further into it.
        return
    assert replay.take() == (asked, released)
    assert answered == by_rules or readable(answered) == readable(by_rules)
    assert content(outcome) == content(outcomes[0])


def _is_no_pod_by_name(body):
    """Whether a body has another resource than pods."""
    return json.loads(body)["request"]["resource"]["resource"] != "pods"


def is_of_wrong_type_unread(outcome):
    """Whether the rules refused a pod only for the type of something that has no part in its share."""
    if outcome.reason is not Reason.UNREADABLE:
        return False
    place = outcome.denial.message.rpartition(" at `")[2].partition("`")[0]
    return UNREAD.fullmatch(place) is not None


def readable(reply):
    """A reply with its patch decoded."""
    found = json.loads(reply)
    patch = found["response"].get("patch")
    if patch is not None:
        found["response"]["patch"] = json.loads(base64.b64decode(patch))
    return found


def content(outcome):
    """What is logged and counted of an outcome."""
    injection = outcome.injection
    share = injection and (injection.container, injection.slices, injection.placement, injection.memory_mib)
    return outcome.reason, outcome.denial, outcome.policy, outcome.error, share
