"""One pod in other words of JSON: a member twice (the last counts, as in Go), escapes, deep nesting."""

import contextlib
import copy
import json
import sys

import pytest

from tests.webhook.support import Webhook, as_body, container, pod, policies, review_of
from tests.webhook.support.answers import finish
from tests.webhook.support.field_values import REQUIRED, TERM
from tests.webhook.support.many_policies import Roomy
from webhook.admission.denial import Reason
from webhook.admission_review import UnreadableReviewError
from webhook.review import Reviewer
from webhook.rules import Rules

FULL = pod(
    metadata={"annotations": {"note": "x"}},
    containers=[
        container(
            limits={"nvidia.com/gpu": "1", "cpu": "1"},
            env=[{"name": "PATH", "value": "/bin"}],
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
            securityContext={"privileged": False},
        ),
        container("side"),
    ],
    initContainers=[container("init", restartPolicy="Always")],
    volumes=[{"name": "data", "emptyDir": {}}],
    nodeSelector={"a": "b"},
    tolerations=[{"operator": "Exists"}],
    hostPID=False,
)
ASSUME = "assume: {gpusPerNode: 1, gpuMemoryMiB: 81920}"
CONTAINER = ("object", "spec", "containers", 0)
HARM = [
    (("object",), pod(containers=[container("evil"), container("b")])),
    (("object", "metadata"), {"name": "x"}),
    (("object", "metadata"), {"labels": {"clearml-injector/fraction": "0.125"}}),
    (("object", "metadata", "labels"), {}),
    (("object", "metadata", "labels", "clearml-injector/fraction"), "0.125"),
    (("object", "metadata", "annotations"), {"cdi.k8s.io/a": "nvidia.com/gpu=all"}),
    (("object", "metadata", "annotations"), {"clearml-injector/injected": "x"}),
    (("object", "spec"), {"containers": [container("evil")]}),
    (("object", "spec", "containers"), [container("evil"), container("b")]),
    (("object", "spec", "initContainers"), [container("gpu-limiter")]),
    (("object", "spec", "volumes"), [{"name": "dev", "hostPath": {"path": "/dev"}}]),
    (("object", "spec", "nodeSelector"), {"c": "d"}),
    (("object", "spec", "tolerations"), []),
    (("object", "spec", "hostPID"), True),
    (("object", "spec", "affinity"), {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}),
    ((*CONTAINER, "name"), "evil"),
    ((*CONTAINER, "env"), [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    ((*CONTAINER, "env", 0, "name"), "LD_PRELOAD"),
    ((*CONTAINER, "env", 0, "valueFrom"), {}),
    ((*CONTAINER, "resources"), {"limits": {"nvidia.com/gpu": "8"}}),
    ((*CONTAINER, "resources", "limits"), {"nvidia.com/gpu-0": "1"}),
    ((*CONTAINER, "resources", "limits", "nvidia.com/gpu"), "8"),
    ((*CONTAINER, "volumeMounts"), [{"name": "x", "mountPath": "/usr/local/vgpu"}]),
    ((*CONTAINER, "volumeMounts", 0, "mountPath"), "/usr/local/vgpu"),
    ((*CONTAINER, "securityContext"), {"privileged": True}),
    ((*CONTAINER, "securityContext", "privileged"), True),
    (("namespace",), "other"),
    (("dryRun",), True),
]


def doubled(path, value, *, is_last):
    """The text of a review in which a member comes twice: as it was, and with another value."""
    review = copy.deepcopy(review_of(FULL))
    parent = review["request"]
    for step in path[:-1]:
        parent = parent[step]
    name = path[-1]
    members = {name: parent.pop(name)} if name in parent else {}
    first, second = (members, {f"again {name}": value}) if is_last else ({f"again {name}": value}, members)
    others = dict(parent)
    parent.clear()
    parent |= {**first, **others, **second}
    return json.dumps(review).replace(f'"again {name}"', json.dumps(name)).encode()


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize(("path", "value"), [*HARM, *((path, None) for path, _ in HARM[1:])])
def test_of_a_member_that_comes_twice_the_last_counts(path, value, is_last):
    webhook = Webhook(policies(f"{ASSUME}\nenv: {{WHERE: '{{namespace}}'}}"))
    body = doubled(path, value, is_last=is_last)
    once = json.dumps(json.loads(body)).encode()
    of_twice, of_once = webhook.send(body), webhook.send(once)
    if value is None and not is_last and of_twice.code == "unreadable-object":
        return
    assert of_twice.code == of_once.code
    assert paths(of_twice) == paths(of_once)
    assert is_last or of_twice.code == "injected"


def paths(decided):
    return [(operation["op"], operation["path"]) for operation in decided.patch]


def escaped(text):
    """JSON that says the text with nothing but escapes."""
    return '"' + "".join(f"\\u{ord(character):04x}" for character in text) + '"'


@pytest.mark.parametrize(
    "name", ["object", "spec", "containers", "env", "resources", "limits", "name", "train"]
)
def test_a_name_in_escapes_is_the_same_name(name):
    webhook = Webhook(policies(ASSUME))
    plain = as_body(review_of(FULL, dryRun=True))
    other = plain.replace(json.dumps(name).encode(), escaped(name).encode())
    assert other != plain
    decided = webhook.send(other)
    assert decided.code == "injected"
    assert decided.patch == webhook.send(plain).patch


@pytest.mark.parametrize(
    ("found", "hidden", "code"),
    [
        (
            pod(volumes=[{"name": "a", "hostPath": {"path": "/dev"}}]),
            ["hostPath", "path", "/dev"],
            "host-path",
        ),
        (pod(containers=[container(securityContext={"privileged": True})]), ["privileged"], "privileged"),
        (pod(hostPID=True), ["hostPID"], "host-pid"),
        (pod(metadata={"annotations": {"cdi.k8s.io/a": "b"}}), ["cdi.k8s.io/a"], "cdi-annotation"),
        (pod(containers=[container(limits={"nvidia.com/gpu": "8"})]), ["nvidia.com/gpu"], "gpu-amount"),
        (
            pod(containers=[container(env=[{"name": "LD_PRELOAD", "valueFrom": {}}])]),
            ["LD_PRELOAD", "valueFrom"],
            "env-value-from",
        ),
    ],
)
def test_nothing_is_hidden_by_escapes(found, hidden, code):
    webhook = Webhook()
    for text in hidden:
        body = as_body(review_of(found))
        assert webhook.send(body.replace(json.dumps(text).encode(), escaped(text).encode())).code == code


def test_a_pod_nested_as_deep_as_can_just_be_read_is_no_internal_error():
    outcomes, policy_set = [], policies()
    reviewer = Reviewer(
        lambda: policy_set, Rules(), Roomy(), lambda _request, made, _seconds: outcomes.append(made)
    )
    found = pod(containers=[container(resources={"unread": "HERE"})])
    for depth in range(sys.getrecursionlimit() - 150, sys.getrecursionlimit()):
        body = as_body(review_of(found)).replace(b'"HERE"', b"[" * depth + b"]" * depth)
        with contextlib.suppress(UnreadableReviewError):
            finish(reviewer.review(body))
    assert {outcome.reason for outcome in outcomes} <= {Reason.INJECTED, Reason.UNREADABLE}
    assert Reason.INJECTED in {outcome.reason for outcome in outcomes}
