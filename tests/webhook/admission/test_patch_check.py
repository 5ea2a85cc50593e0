"""A patch that a broken rule wrote is not sent, no matter what decides the pod: its review denies it."""

import copy
import json

import pytest

from tests.webhook.support import Webhook, container, pod, policies, review_of
from tests.webhook.support.gpu_pods import CONTAINERS, GPUS, MEMORY
from webhook.admission import mutate, patch_check
from webhook.admission.patch_check import check_patch
from webhook.admission.patched import UnsoundPatchError

ASKING = {"nvidia.com/gpu": "1"}
FOUND = pod(
    initContainers=[container("warm", limits=ASKING)],
    containers=[container(limits=ASKING), container("side")],
)
POLICY = "tolerations: [{key: gpu, operator: Exists}]\nruntimeClassName: nvidia"
RULES = {
    "write_annotations": "annotations",
    "replace_amounts": "gpu_resources",
    "limit_env": "environment",
    "hide_gpus": "environment",
    "bind_node": "affinity",
    "_limiter_volumes": "limiter",
    "_pod": "mutate",
}
"""What writes each part of a patch, and the module that is named where it is missing."""


def review(webhook, found, *, learns):
    body = json.dumps(review_of(found)).encode()
    if learns:
        webhook.learn(body)
    reply = webhook.reviewer.answer(body)
    assert isinstance(reply, bytes)
    return json.loads(reply)["response"], webhook.outcomes[-1]


@pytest.mark.parametrize("learns", [True, False], ids=["by the cache", "by the rules"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_writes_nothing_is_caught_before_its_patch_is_sent(rule, learns, monkeypatch):
    one = pod(containers=[container(limits=ASKING), container("side")])
    webhook = Webhook(policies(POLICY))
    monkeypatch.setattr(mutate, rule, lambda *_: [])
    response, outcome = review(webhook, one, learns=learns)
    assert not response["allowed"]
    assert "patch" not in response
    assert outcome.reason.value == "internal-error"
    assert outcome.error.startswith("a patch was not sent: ")
    assert RULES[rule] in outcome.error
    assert len(response["status"]["message"]) <= 200
    assert [gpu.used for node in webhook.ledger.view().nodes for gpu in node.gpus if gpu.used] == []


@pytest.mark.parametrize("learns", [True, False], ids=["by the cache", "by the rules"])
def test_a_rule_that_writes_too_much_is_caught(learns, monkeypatch):
    plain = mutate.replace_amounts
    monkeypatch.setattr(
        mutate, "replace_amounts", lambda ref, amounts: plain(ref, {**amounts, "nvidia.com/gpu-7": "8"})
    )
    response, outcome = review(Webhook(), pod(), learns=learns)
    assert (response["allowed"], outcome.reason.value) == (False, "internal-error")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/spec/containers", "value": []},
        {"op": "add", "path": "/spec/containers/0/resources", "value": {}},
        {"op": "remove", "path": "/metadata/labels/clearml-injector~1fraction"},
        {"op": "remove", "path": "/spec/containers/0"},
        {"op": "remove", "path": "/spec/containers/0/resources/limits/cpu"},
        {"op": "remove", "path": "/metadata/annotations/note"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "x"},
        {"op": "add", "path": "/spec/nothing/here", "value": "x"},
        {"op": "add", "path": "/spec/containers/9", "value": {}},
        {"op": "remove", "path": "/spec/containers/0/env/9"},
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
def test_an_operation_that_no_rule_writes_is_caught(operation, monkeypatch):
    found = pod(
        containers=[container(limits={"cpu": "1", **ASKING}, env=[{"name": "A", "value": "b"}])],
        metadata={"annotations": {"note": "x"}},
    )
    monkeypatch.setattr(mutate, "_pod", lambda _: [operation])
    outcome = review(Webhook(), found, learns=False)[1]
    assert outcome.reason.value == "internal-error"
    assert outcome.error.startswith("a patch was not sent: ")


def test_what_a_fault_says_holds_nothing_of_the_pod(monkeypatch):
    secret = {"op": "remove", "path": "/metadata/annotations/SECRET"}
    monkeypatch.setattr(mutate, "_pod", lambda _: [secret])
    response, outcome = review(Webhook(), pod(metadata={"annotations": {"SECRET": "x"}}), learns=False)
    assert "SECRET" not in outcome.error
    assert "SECRET" not in json.dumps(response)


def admitted(found, text=""):
    decided = Webhook(policies(text), again=False).decide(found)
    assert decided.code == "injected"
    return decided.outcome.policy, decided.outcome.injection, decided.stored


SHAPES = {
    "one container": (pod(), ""),
    "init containers and others": (FOUND, POLICY),
    "memory": (pod(fraction=None, labels={MEMORY: "4Gi"}), ""),
    "two GPUs": (pod(metadata={"annotations": {GPUS: "2"}}), ""),
    "two containers": (
        pod(
            fraction="0.750",
            containers=[container(), container("eval"), container("proxy")],
            metadata={"annotations": {CONTAINERS: "train=0.500,eval=0.250"}},
        ),
        "",
    ),
    "whole GPUs": (pod(fraction="2"), 'fractions: {"2": 16}'),
    "pooled": (pod(), "resources: {mode: pooled}\nassume: {gpusPerNode: 2, gpuMemoryMiB: 81920}"),
    "limits by an agent": (pod(), "limits: {from: agent}"),
    "no limiter": (pod(), "limiter: none"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_genuine_patch_passes_and_gives_the_very_pod_that_is_stored(shape):
    found, text = SHAPES[shape]
    policy, injection, stored = admitted(found, text)
    patched = copy.deepcopy(found)
    check_patch(patched, injection.patch, "team", policy, injection.placement)
    assert patched == stored


def one(stored, name="train"):
    return next(
        each
        for each in [*stored["spec"]["containers"], *stored["spec"]["initContainers"]]
        if each["name"] == name
    )


TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
DAMAGES = {
    "another amount": lambda p: one(p)["resources"]["limits"].update({"nvidia.com/gpu-0": "5"}),
    "no request": lambda p: one(p)["resources"]["requests"].clear(),
    "a second GPU": lambda p: one(p)["resources"]["limits"].update({"nvidia.com/gpu-1": "1"}),
    "a GPU of another container": lambda p: one(p, "side").update(
        resources={"limits": {"nvidia.com/gpu-1": "1"}}
    ),
    "a variable twice": lambda p: one(p)["env"].append({"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "1m"}),
    "another reserved variable": lambda p: one(p)["env"].append(
        {"name": "CUDA_DISABLE_CONTROL", "value": "true"}
    ),
    "no library first": lambda p: one(p)["env"].append({"name": "LD_PRELOAD", "value": "/evil.so"}),
    "a sidecar that sees GPUs": lambda p: one(p, "side")["env"].clear(),
    "no mount": lambda p: one(p)["volumeMounts"].pop(),
    "no mount in an init container": lambda p: one(p, "warm")["volumeMounts"].clear(),
    "no volume": lambda p: p["spec"]["volumes"].pop(),
    "another volume": lambda p: p["spec"]["volumes"][0].update(emptyDir={}),
    "no limiter": lambda p: p["spec"]["initContainers"].pop(0),
    "the limiter too late": lambda p: p["spec"]["initContainers"].reverse(),
    "no affinity": lambda p: p["spec"].pop("affinity"),
    "a term too many": lambda p: p["spec"]["affinity"]["nodeAffinity"][TERMS]["nodeSelectorTerms"].append(
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    ),
    "no toleration": lambda p: p["spec"].pop("tolerations"),
    "no runtime class": lambda p: p["spec"].pop("runtimeClassName"),
    "no marker": lambda p: p["metadata"]["annotations"].pop("clearml-injector/injected"),
    "another memory said": lambda p: p["metadata"]["annotations"].update(
        {"clearml-injector/memory-mib": "99999"}
    ),
    "another reservation": lambda p: p["metadata"]["annotations"].update(
        {"clearml-injector/reservation": "another"}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_patched_pod_that_lacks_anything_of_its_share_is_caught(damage):
    policy, injection, stored = admitted(FOUND, POLICY)
    check_patch(copy.deepcopy(stored), b"", "team", policy, injection.placement)
    DAMAGES[damage](stored)
    with pytest.raises(UnsoundPatchError):
        check_patch(stored, b"", "team", policy, injection.placement)


def test_a_template_is_checked_once_for_all_pods_and_places_alike(monkeypatch):
    checked, plain = [], patch_check.check_patch
    webhook = Webhook(again=False)
    monkeypatch.setattr(
        "webhook.patch_cache.cache.check_patch", lambda *args: checked.append(args) or plain(*args)
    )
    for number in range(6):
        webhook.decide(pod(), uid=f"uid-{number}")
    places = {outcome.injection.placement.indices for outcome in webhook.outcomes}
    assert 1 <= len(checked) <= len(places) * 2
