"""Updates of an injected pod: those that Kubernetes refuses get one line of ours first."""

import copy

import pytest

from tests.webhook.support import Webhook, pod, review_of

TRAIN = ("spec", "containers", 0)


def update(change):
    """What becomes of an update of an injected pod: of each path, to a value, or None to leave it out."""
    webhook = Webhook()
    stored = webhook.decide(pod()).stored
    changed = copy.deepcopy(stored)
    for (*steps, name), value in change:
        parent = changed
        for step in steps:
            parent = parent[step]
        if value is None:
            del parent[name]
        else:
            parent[name] = value
    review = review_of(changed, operation="UPDATE")
    review["request"]["oldObject"] = stored
    return webhook.send(review)


APPLIED_AGAIN = ((*TRAIN, "resources", "limits", "nvidia.com/gpu"), "1")


@pytest.mark.parametrize(
    "change",
    [
        APPLIED_AGAIN,
        ((*TRAIN, "args"), ["--other"]),
        ((*TRAIN, "env", 0, "value"), "other"),
        (("spec", "initContainers", 0, "env"), []),
    ],
)
def test_an_update_that_kubernetes_refuses_is_denied_in_one_line(change):
    decided = update([change])
    assert decided.code == "pod-exists"
    assert decided.message == (
        "the pod already exists, and its containers cannot change in this way: delete it, then create it "
        "again (a ClearML task: enqueue it when its pod is gone)"
    )
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    "change",
    [
        [],
        [((*TRAIN, "image"), "example.com/other:1")],
        [(("metadata", "labels", "team"), "blue")],
        [((*TRAIN, "resources", "limits", "cpu"), "9")],
        [APPLIED_AGAIN, (("metadata", "labels"), None)],
        [(("spec", "containers"), "none")],
    ],
    ids=["nothing", "image", "label", "cpu", "without our label", "unreadable"],
)
def test_other_updates_are_left_to_the_api_server(change):
    assert update(change).code == "not-handled"


def test_an_update_without_an_old_object_is_left_to_the_api_server():
    assert Webhook().send(review_of(pod(), operation="UPDATE")).code == "not-handled"
