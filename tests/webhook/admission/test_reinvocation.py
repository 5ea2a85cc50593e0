"""Step "again": a second review keeps what holds, adds what is missing, and believes nothing."""

import copy

import pytest

from ledger.ledger import Ledger
from tests.ledger.cluster import gpu_node
from tests.webhook.support import CACHE, LIBRARY, Webhook, container, named, pod, policies, reviewed

ANNOTATIONS = "clearml-injector/"
MIB = ANNOTATIONS + "memory-mib"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_of_two_genuine_limiters_the_one_that_is_mounted_stays():
    webhook, injected = reviewed()
    spec = injected["spec"]
    second = copy.deepcopy(spec["initContainers"][0])
    second["name"], second["volumeMounts"][0]["name"] = "gpu-limiter-2", "gpu-limiter-library-2"
    volume = copy.deepcopy(named(spec["volumes"], "gpu-limiter-library"))
    spec["volumes"].append({**volume, "name": "gpu-limiter-library-2"})
    spec["initContainers"].insert(0, second)
    assert webhook.decide(injected).patch == []


def test_a_term_added_meanwhile_gets_the_memory_expression():
    webhook, injected = reviewed()
    terms = injected["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    terms.append({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})
    path = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/1/matchExpressions/-"
    memory = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["23028"]}
    assert webhook.decide(injected).patch == [{"op": "add", "path": path, "value": memory}]


def forged():
    """A pod written by hand that says all that we would, without limiter."""
    said = {"injected": "default@0", "slices": "4", "gpu-index": "1", "gpu-container": "train"}
    memory = {"key": "nvidia.com/gpu.memory", "operator": "In", "values": ["81920"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [memory]}]}
    return pod(
        containers=[container(limits={"nvidia.com/gpu-1": "4"})],
        metadata={"annotations": {ANNOTATIONS + name: text for name, text in said.items()} | {MIB: "40960"}},
        affinity={"nodeAffinity": {REQUIRED: terms}},
    )


def test_a_complete_forgery_keeps_its_index_and_still_gets_the_limiter():
    webhook = Webhook()
    decided = webhook.decide(forged())
    assert decided.code == "injected"
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-1": "4"}
    assert ("CUDA_DEVICE_MEMORY_LIMIT_0", "40960m") in decided.env()
    assert decided.spec["initContainers"][0]["name"] == "gpu-limiter"
    assert [mount["mountPath"] for mount in decided.container()["volumeMounts"]] == [LIBRARY, CACHE]
    assert decided.annotations["clearml-injector/injected"] == decided.outcome.policy.marker
    assert webhook.ledger.totals().used == 0


def in_term(spec):
    return spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"][0]


def limits(spec):
    return spec["containers"][0]["resources"]["limits"]


@pytest.mark.parametrize(
    "change",
    [
        {"injected": "other@000000000000"},
        {"slices": "8"},
        {"gpu-index": "0"},
        {"gpu-index": "1,2"},
        {"gpu-index": "\u0661"},
        {"gpu-index": None},
        {"gpu-container": "other"},
        {"gpu-container": None},
        {"memory-mib": "80000"},
        {"memory-mib": None},
        lambda spec: spec.pop("affinity"),
        lambda spec: limits(spec).update({"nvidia.com/gpu-1": "8"}),
        lambda spec: limits(spec).update({"nvidia.com/gpu-2": "4"}),
        lambda spec: spec["containers"][0]["resources"]["requests"].update({"nvidia.com/gpu-7": "1"}),
        lambda spec: in_term(spec).update(values=None),
        lambda spec: in_term(spec).update(values=["81920", "40960"]),
    ],
)
def test_a_claim_of_which_one_part_does_not_agree_keeps_no_index(change):
    """A part is an annotation's value, or something of the spec."""
    found = forged()
    if callable(change):
        change(found["spec"])
    else:
        said = found["metadata"]["annotations"]
        said |= {ANNOTATIONS + name: text for name, text in change.items()}
        found["metadata"]["annotations"] = {name: text for name, text in said.items() if text is not None}
    assert Webhook().decide(found).code == "gpu-index-set"


def test_empty_texts_that_the_api_server_leaves_out_are_known_again():
    limiter = """
kind: Limiter
name: mine
env: {EMPTY: ""}
library: {mountPath: /opt/limiter, sizeLimit: 8Mi}
initContainer:
  image: example.com/limiter:1
  command: [copy]
  env: {NVIDIA_VISIBLE_DEVICES: void, EMPTY: ""}
"""
    tolerations = 'tolerations: [{key: gpu, operator: Equal, value: "", effect: NoSchedule}]'
    webhook, injected = reviewed(pod(), policies(f"limiter: mine\n{tolerations}", mine=limiter))
    for holder in (
        injected["spec"]["initContainers"][0]["env"][-1],
        named(injected["spec"]["containers"][0]["env"], "EMPTY"),
        injected["spec"]["tolerations"][0],
    ):
        assert holder.pop("value", "") == ""
    assert webhook.decide(injected).patch == []


QUOTA = "quotas: {namespaces: {team: {slices: 4}}}"


def by_hand(injected):
    """The same pod, as somebody writes it who has never been here."""
    forged = copy.deepcopy(injected)
    del forged["metadata"]["annotations"][ANNOTATIONS + "reservation"]
    return forged


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_placement_written_by_hand_is_held_to_the_quota(dry_run):
    webhook, injected = reviewed(policy_set=policies(QUOTA))
    assert webhook.decide(by_hand(injected), uid="another", dryRun=dry_run).code == "over-quota"
    assert webhook.ledger.totals().used == 4


def test_an_assumed_memory_is_kept_only_where_nothing_is_known():
    assume = policies("assume: {gpusPerNode: 8, gpuMemoryMiB: 163840}")
    webhook = Webhook(assume, Ledger())
    injected = webhook.decide(pod()).stored
    assert injected["metadata"]["annotations"][ANNOTATIONS + "memory-mib"] == "81920"
    assert webhook.decide(injected).patch == []
    assert Webhook(assume).decide(injected).code == "gpu-index-set"


def test_a_copy_that_is_restored_where_no_gpu_has_its_memory_is_denied_in_one_line():
    webhook, injected = reviewed()
    webhook.ledger.replace([gpu_node("other", mib=40960)], [])
    decided = webhook.decide(injected)
    assert decided.code == "no-matching-node"
    assert decided.message == (
        "no node has GPUs of 23028 MiB, as where this pod was admitted first: leave out its GPU amounts, the"
        " affinity to nvidia.com/gpu.memory, and containers, volumes and mounts gpu-limiter*"
    )
    webhook.ledger.replace([], [])
    assert webhook.decide(injected).code == "unchanged"
