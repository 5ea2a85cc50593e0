"""Which policy a pod follows, and what a queue's entry may change."""

import pytest

from modes.fraction import Fraction
from tests.policies.support import policy_set

TEAM = "kind: Policy\nname: team\nnamespaces: [team-a, team-b]\nlimiter: none\n"
STRICT = "kind: Policy\nname: strict\nmemory: {reserveMiB: 512}\n"
QUEUES = """
kind: Queues
queues:
  gpu_0.5:
    id: 1f2e3d
    namespaces: [clearml]
    policy: strict
    limiter: none
  small:
    fractions: {"0.125": 1}
"""


def names(policies, *asked):
    return [policies.resolve(*pod).name for pod in asked]


def test_a_queues_policy_goes_before_the_namespaces_and_that_before_default():
    policies = policy_set(team=TEAM, strict=STRICT, queues=QUEUES.replace("[clearml]", "[clearml, team-a]"))
    asked = [
        ("clearml", "gpu_0.5", None),
        ("team-a", "gpu_0.5", None),
        ("team-b", None, None),
        ("x", None, None),
    ]
    assert names(policies, *asked) == ["strict", "strict", "team", "default"]


def test_an_entry_applies_in_its_namespaces_only():
    policies = policy_set(strict=STRICT, queues=QUEUES)
    assert policies.resolve("clearml", "gpu-0-5", None).limiter.name == "none"
    elsewhere = policies.resolve("default", "gpu-0-5", None)
    assert (elsewhere.name, elsewhere.limiter.name, elsewhere.queue) == ("default", "hami-core", None)


@pytest.mark.parametrize(
    ("name", "identity"), [("gpu_0.5", None), ("gpu-0-5", None), ("GPU 0.5", None), ("other", "1f2e3d")]
)
def test_a_queue_is_found_by_name_as_written_or_sanitised_and_by_id(name, identity):
    policy = policy_set(strict=STRICT, queues=QUEUES).resolve("clearml", name, identity)
    assert (policy.name, policy.queue) == ("strict", "gpu_0.5")


def test_an_entry_without_a_policy_changes_the_namespaces_own():
    policies = policy_set(team=TEAM, strict=STRICT, queues=QUEUES)
    policy = policies.resolve("team-a", "small", None)
    assert (policy.name, policy.limiter.name, policy.queue) == ("team", "none", "small")
    assert policy.fractions == {"0.125": Fraction(1, 8)}


def test_fewer_slices_leave_texts_out():
    policy = policy_set(four="kind: Policy\nname: four\nnamespaces: [n]\nslicesPerGpu: 4\n").resolve(
        "n", None, None
    )
    assert policy.fractions == {"0.250": Fraction(1, 4), "0.500": Fraction(2, 4), "0.750": Fraction(3, 4)}


def test_the_ledger_learns_which_names_to_count():
    pooled = "kind: Policy\nname: p\nresources: {mode: pooled, name: example.com/share}\n"
    resource_names = policy_set(p=pooled).resource_names
    assert resource_names.per_gpu_prefix == "nvidia.com/gpu-"
    assert resource_names.pooled == ("example.com/share", "nvidia.com/gpu", "nvidia.com/gpu.shared")


def test_place_and_one_model_are_the_policys_unless_the_queue_says_otherwise():
    team = f"{TEAM}place: spread\nsameModel: true\n"
    queues = "kind: Queues\nqueues: {a: {place: pack}, b: {sameModel: false}, c: {place: spread}}"
    policies = policy_set(team=team, queues=queues)
    asked = [("x", None), ("x", "c"), ("team-a", None), ("team-a", "a"), ("team-a", "b")]
    found = [policies.resolve(namespace, queue, None) for namespace, queue in asked]
    assert [(policy.demands.place, policy.demands.same_model) for policy in found] == [
        ("pack", False),
        ("spread", False),
        ("spread", True),
        ("pack", True),
        ("spread", False),
    ]
