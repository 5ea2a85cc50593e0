"""Policies of mode dra: what cannot hold without an account of claims is refused, each in one line."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from tests.policies.support import policy_set, problems

HEAD = "kind: Policy\nname: default\n"
DRA = f"{HEAD}resources: {{mode: dra}}\n"


def resolved(text):
    return policy_set(default=text).resolve("default", None, None)


def test_the_agents_driver_is_the_default_and_limits():
    policy = resolved(DRA)
    assert (policy.mode.resource, policy.limits_from, policy.writes_limits) == (DRIVER, "agent", False)
    assert policy.written_limiter.env == ()


def test_with_nvidias_driver_the_webhook_writes_the_limit():
    policy = resolved(f"{HEAD}resources: {{mode: dra, driver: gpu.nvidia.com}}\n")
    assert (policy.mode.resource, policy.limits_from, policy.writes_limits) == (
        NVIDIA_DRIVER,
        "admission",
        True,
    )
    names = {each.name for each in policy.written_limiter.env}
    assert "CUDA_DEVICE_MEMORY_LIMIT" in names


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("quotas: {namespaces: {a: {slices: 1}}}", "quotas.namespaces: the ledger does not count claims"),
        ("quotas: {queues: {a: {slices: 1}}}", "quotas.queues: the ledger does not count claims"),
        ("quotas: {queueMaxPods: true}", "quotas.queueMaxPods: the ledger does not count claims"),
        ("quotas: {whenOverQuota: wait}", "quotas.whenOverQuota: the ledger does not count claims"),
        ("place: spread", "place: the scheduler chooses node and card"),
        ("sameModel: true", "sameModel: the scheduler chooses the card"),
        ("containers: any-gpu", "containers: a pod has one claim"),
        ("compute: 50", "compute: a claim is for memory"),
        ("memory: {reserveMiB: 100}", "memory.reserveMiB: the DRA driver leaves its own reserve out"),
        ("aliases: {kai: true}", "aliases: other systems' words become no claims yet"),
        ("replaceWaiting: {after: 10s}", "replaceWaiting: pods of mode dra have no index"),
        ("limiter: clearml-image", "works by the pod's image or hostPID"),
        ("env: {A: '{slices}'}", "env.A: {slices} has no value in mode dra"),
    ],
)
def test_what_nothing_would_keep_is_a_mistake(more, expected):
    found = problems(default=f"{DRA}{more}\n")
    assert [problem for problem in found if expected in problem], found


@pytest.mark.parametrize("entry", ["quota: {slices: 2}", "whenOverQuota: wait"])
def test_the_quota_of_a_queue_whose_pods_get_claims_is_a_mistake(entry):
    queues = f"kind: Queues\nqueues:\n  q: {{policy: dra, namespaces: [a], {entry}}}\n"
    [problem] = problems(default=HEAD, dra="kind: Policy\nname: dra\nresources: {mode: dra}\n", queues=queues)
    assert "the ledger does not count claims yet" in problem


def test_drivers_are_for_the_mode_and_known():
    assert "mode per-gpu has no DRA driver" in str(
        problems(default=f"{HEAD}resources: {{driver: {DRIVER}}}\n")
    )
    assert "resources.driver" in str(problems(default=f"{HEAD}resources: {{mode: dra, driver: custom}}\n"))
    nvidia = f"{HEAD}resources: {{mode: dra, driver: gpu.nvidia.com}}\nlimits: {{from: agent}}\n"
    assert "limits no memory" in str(problems(default=nvidia))
    named = f"{HEAD}resources: {{mode: dra, driver: {DRIVER}, name: a.example.com/b}}\n"
    assert "resources.name" in str(problems(default=named))
