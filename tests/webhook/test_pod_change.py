"""Updates of an injected pod: those that Kubernetes refuses get one line of ours first."""

import copy

import pytest

from tests.webhook.support import Webhook, pod, review_of

TRAIN = ("spec", "containers", 0)
APPLIED_AGAIN = ((*TRAIN, "resources", "limits", "nvidia.com/gpu"), "1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([APPLIED_AGAIN], "pod-exists"),
        ([((*TRAIN, "args"), ["--other"])], "pod-exists"),
        ([((*TRAIN, "env", 0, "value"), "other")], "pod-exists"),
        ([(("spec", "initContainers", 0, "env"), [])], "pod-exists"),
        ([], "not-handled"),
        ([((*TRAIN, "image"), "example.com/other:1")], "not-handled"),
        ([(("metadata", "labels", "team"), "blue")], "not-handled"),
        ([((*TRAIN, "resources", "limits", "cpu"), "9")], "not-handled"),
        ([APPLIED_AGAIN, (("metadata", "labels"), {})], "not-handled"),
        ([(("spec", "containers"), "none")], "not-handled"),
    ],
)
def test_an_update_that_kubernetes_refuses_is_denied_and_others_are_left_to_the_api_server(changes, code):
    """Each change is a path and its new value."""
    webhook = Webhook()
    stored = webhook.decide(pod()).stored
    changed = copy.deepcopy(stored)
    for (*steps, name), value in changes:
        parent = changed
        for step in steps:
            parent = parent[step]
        parent[name] = value
    decided = webhook.decide(changed, operation="UPDATE", oldObject=stored)
    assert decided.code == code
    if not decided.allowed:
        assert decided.message == (
            "the pod already exists, and its containers cannot change in this way: delete it, then create it"
            " again (a ClearML task: enqueue it when its pod is gone)"
        )


def test_an_update_without_an_old_object_is_left_to_the_api_server():
    assert Webhook().send(review_of(pod(), operation="UPDATE")).code == "not-handled"
