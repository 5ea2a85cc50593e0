"""What is said of a workload whose pods are refused, and of a name that no pod has."""

import pytest

from ledger.why_refused import MAX_MESSAGE, EventSummary, cause_of, why_absent, why_refused

WEBHOOK = 'webhook "fractions.clearml-injector.io"'
FRACTION = 'clearml-injector/fraction "0.5" is not allowed: use 0.125, 0.250, 0.500 (did you mean "0.500"?)'
PIECE = "no GPU has 4 free slices now, and a share of more would fail: try again later, or request less"
REASONS = FRACTION, PIECE
DENIED, PIECES = (f"Error creating: admission {WEBHOOK} denied the request: {why}" for why in REASONS)
AWAY = f"Error creating: Internal error occurred: failed calling {WEBHOOK}: failed to call it: refused"
LOCK = "Error creating: pods is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"
QUOTA = 'Error creating: pods "a" is forbidden: exceeded quota: gpus, requested: 4, used: 8, limited: 8'


def refused(message=DENIED, kind="Job", name="train", **fields):
    return EventSummary(kind, name, "FailedCreate", message, **fields)


def test_who_was_refused_reads_the_denial_and_what_to_do():
    assert why_refused("team", "train", [refused(count=4, age_seconds=300)]) == (
        "Job team/train could not create a pod. It was rejected 4 times, last 5 minutes ago. The injector"
        f" denied it: {FRACTION}. What would help: follow the message in the manifest of Job train, then"
        " delete the Job and create it again."
    )


def test_a_deployment_is_asked_for_by_its_own_name():
    said = why_refused("team", "web", [refused(kind="ReplicaSet", name="web-6f7", age_seconds=5)])
    assert "ReplicaSet team/web-6f7 could not create a pod. It was rejected once, just now." in said
    assert 'There is no pod "web".' in said
    assert (
        "in the pod template of the owner of ReplicaSet web-6f7, usually a Deployment, and apply it." in said
    )


@pytest.mark.parametrize(
    ("message", "cause", "advice"),
    [
        (DENIED, "denied", "follow the message"),
        (PIECES, "denied", "follow the message; the pod is retried automatically"),
        (AWAY, "webhook away", "tell the admin"),
        (LOCK, "second lock", "follow the message"),
        (QUOTA, "quota", "ask the admin for more"),
        ("Error creating: pods is invalid: spec.x", "other", "fix what the message names"),
    ],
)
def test_each_cause_has_its_help(message, cause, advice):
    assert cause_of(message)[0] == cause
    assert advice in why_refused("team", "train", [refused(message)])


def test_a_name_that_is_gone_is_explained_by_its_last_events():
    gone = EventSummary("Pod", "a", "ShareIdle", "waited 300 s", age_seconds=120)
    said = why_absent("team", "a", [gone])
    assert "There is no pod a in namespace team. Event ShareIdle 2 minutes ago: waited" in said
    assert "So the pod existed and was deleted." in said


def test_a_name_that_nobody_knows_says_where_to_look():
    assert "There is no Event on it either" in why_absent("team", "a", [])
    assert "explain FILE" in why_absent("team", "a", [])
    assert "could not be read" in why_absent("team", "a", [], may_read_events=False)


def test_a_long_message_is_cut():
    assert len(why_refused("team", "train", [refused("x" * 10**6)])) < 2 * MAX_MESSAGE
