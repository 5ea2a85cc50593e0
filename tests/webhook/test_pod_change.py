"""Updates of an injected pod: those that Kubernetes refuses get one line of ours first."""

import copy

import pytest

from tests.webhook.support import Webhook, pod, review_of


def update(change):
    """What becomes of an update of an injected pod."""
    webhook = Webhook()
    stored = webhook.decide(pod()).stored
    changed = copy.deepcopy(stored)
    change(changed)
    review = review_of(changed, operation="UPDATE")
    review["request"]["oldObject"] = stored
    return webhook.send(review)


def first_container(found):
    return found["spec"]["containers"][0]


def applied_again(found):
    first_container(found)["resources"]["limits"]["nvidia.com/gpu"] = "1"


def other_arguments(found):
    first_container(found)["args"] = ["--other"]


def another_variable(found):
    first_container(found)["env"].append({"name": "MORE", "value": "1"})


def another_init_variable(found):
    found["spec"]["initContainers"][0]["env"] = []


@pytest.mark.parametrize("change", [applied_again, other_arguments, another_variable, another_init_variable])
def test_an_update_that_kubernetes_refuses_is_denied_in_one_line(change):
    decided = update(change)
    assert decided.code == "pod-exists"
    assert decided.message == (
        "the pod already exists, and its containers cannot change in this way: delete it, then create it "
        "again (a ClearML task: enqueue it when its pod is gone)"
    )
    assert len(decided.message) <= 200


def nothing(_):
    pass


def another_image(found):
    first_container(found)["image"] = "example.com/other:1"


def another_label(found):
    found["metadata"]["labels"]["team"] = "blue"


def resized(found):
    first_container(found)["resources"]["limits"]["cpu"] = "9"


def without_label(found):
    applied_again(found)
    del found["metadata"]["labels"]


def unreadable(found):
    found["spec"]["containers"] = "none"


ALLOWED_CHANGES = [nothing, another_image, another_label, resized, without_label, unreadable]


@pytest.mark.parametrize("change", ALLOWED_CHANGES)
def test_other_updates_are_left_to_the_api_server(change):
    assert update(change).code == "not-handled"


def test_an_update_without_an_old_object_is_left_to_the_api_server():
    assert Webhook().send(review_of(pod(), operation="UPDATE")).code == "not-handled"
