"""Policies of mode dra: what nothing would keep is refused, each in one line."""

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
        ("slicesPerGpu: 16\nquotas: {namespaces: {a: {slices: 1, maxPods: 2}}}", "quotas.namespaces.a.slice"),
        ("slicesPerGpu: 4\nquotas: {queues: {q: {slices: 1}}}", "quotas.queues.q.slices: claims count as"),
        ("fractions: {'0.333333333': 3}", 'fractions."0.333333333": has too many digits'),
        ("place: spread", "place: the scheduler chooses node and card"),
        ("sameModel: true", "sameModel: the scheduler chooses the card"),
        ("compute: 50", "compute: a claim is for memory"),
        ("memory: {reserveMiB: 100}", "memory.reserveMiB: the DRA driver leaves its own reserve out"),
        ("limiter: clearml-image", "works by the pod's image or hostPID"),
        ("env: {A: '{slices}'}", "env.A: {slices} has no value in mode dra"),
    ],
)
def test_what_nothing_would_keep_is_a_mistake(more, expected):
    found = problems(default=f"{DRA}{more}\n")
    assert [problem for problem in found if expected in problem], found


@pytest.mark.parametrize(
    ("policy", "entry", "is_right"),
    [
        ("slicesPerGpu: 16", "quota: {slices: 2}", False),
        ("slicesPerGpu: 16", "quota: {memoryMiB: 2}", True),
        ("slicesPerGpu: 8", "quota: {slices: 2}, whenOverQuota: wait", True),
    ],
)
def test_a_queues_quota_of_slices_is_for_policies_with_eighths(policy, entry, is_right):
    queues = f"kind: Queues\nqueues:\n  q: {{policy: dra, namespaces: [a], {entry}}}\n"
    dra = f"kind: Policy\nname: dra\nresources: {{mode: dra}}\n{policy}\n"
    found = problems(default=HEAD, dra=dra, queues=queues)
    assert ["claims count as eighths of a card" in each for each in found] == ([] if is_right else [True])


def test_drivers_are_for_the_mode_and_known():
    assert problems(default=f"{HEAD}resources: {{driver: {DRIVER}}}\n") == []
    other = problems(default=f"{HEAD}resources: {{mode: dra, driver: gpu.example.com}}\n")
    assert f'resources.driver: "gpu.example.com" must be one of {DRIVER}, {NVIDIA_DRIVER}' in str(other[0])
    sliced = problems(
        default=f"{HEAD}resources: {{mode: per-gpu, driver: {NVIDIA_DRIVER}}}\nlimits: {{from: agent}}\n"
    )
    assert ("resources.driver: is for mode dra" in str(sliced), "claims" in str(sliced)) == (True, False)
    nvidia = f"{HEAD}resources: {{mode: dra, driver: gpu.nvidia.com}}\nlimits: {{from: agent}}\n"
    assert "limits no memory" in str(problems(default=nvidia))
    named = f"{HEAD}resources: {{mode: dra, driver: {DRIVER}, name: a.example.com/b}}\n"
    assert "resources.name" in str(problems(default=named))


@pytest.mark.parametrize(("text", "is_right"), [("0.33333333", True), ("0.333333333", False)])
def test_a_queues_fraction_has_only_so_many_digits_as_a_claim_can_name(text, is_right):
    queues = f"kind: Queues\nqueues:\n  q: {{namespaces: [a], fractions: {{'{text}': 3}}}}\n"
    found = problems(queues=queues)
    assert ["too many digits" in each for each in found] == ([] if is_right else [True])
