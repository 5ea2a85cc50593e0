"""What KAI Scheduler publishes of gpu-fraction, gpu-memory and num-devices, and what alias `kai` does.

KAI's column is that of its documentation on GPU sharing and of the validation in its admission webhook
(kai-scheduler/KAI-Scheduler, d5bc503a of August 2026). Where ours is stricter on purpose, or takes more,
docs/operating/other-systems.md says so.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.webhook.admission.test_aliases import KAI, kai, limits, webhook_of
from tests.webhook.support import container

Verdict = Literal["taken", "denied", "left alone"]
BEYOND_UINT64 = str(2**64)


def verdict(policy_set: Any, found: dict[str, Any]) -> Verdict:
    decided = webhook_of(policy_set).decide(found)
    if decided.code == "not-labelled":
        assert decided.patch == []
        return "left alone"
    return "taken" if decided.allowed else "denied"


@pytest.mark.parametrize(
    ("said", "both"),
    [
        # A fraction is a decimal number between 0 and 1, both excluded.
        ({"fraction": "0.5"}, "taken"),
        ({"fraction": "0"}, "denied"),
        ({"fraction": "1"}, "denied"),
        ({"fraction": "1.5"}, "denied"),
        ({"fraction": "half"}, "denied"),
        ({"fraction": ""}, "denied"),
        # Memory is a whole number of MiB from 1 up.
        ({"memory": "2000"}, "taken"),
        ({"memory": "1"}, "taken"),
        ({"memory": "0"}, "denied"),
        ({"memory": "-1"}, "denied"),
        ({"memory": "much"}, "denied"),
        ({"memory": ""}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "1"}, "taken"),
        ({"fraction": "0.5", "fraction_num_devices": "2"}, "taken"),
        ({"fraction": "0.5", "fraction_num_devices": "-1"}, "denied"),
        ({"memory": "2000", "fraction_num_devices": "two"}, "denied"),
        # A share is its own limit: one of Run:ai's that says the same says nothing more.
        ({"fraction": "0.5", "fraction_limit": "0.50"}, "taken"),
        ({"memory": "2000", "memory_limit": "1" * 100_000}, "denied"),
        # Two amounts contradict each other.
        ({"fraction": "0.5", "memory": "2000"}, "denied"),
    ],
)
def test_amounts_are_taken_and_denied_as_kai_does(said: dict[str, str], both: Verdict) -> None:
    assert verdict(KAI, kai(**said)) == both


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        # KAI takes amounts that the policy does not list, and other ways to write one.
        ({"fraction": "0.3"}, "denied"),
        ({"fraction": "5e-1"}, "denied"),
        ({"fraction": ".5"}, "denied"),
        ({"memory": "02000"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "02"}, "denied"),
        # What no node can ever hold waits with KAI.
        ({"memory": "99999999"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "9"}, "denied"),
        # KAI denies devices alone; here they are no share: such a pod asks nothing of ours.
        ({"fraction_num_devices": "2"}, "left alone"),
    ],
)
def test_amounts_are_decided_otherwise_where_the_page_on_other_systems_says_so(
    said: dict[str, str], ours: Verdict
) -> None:
    assert verdict(KAI, kai(**said)) == ours


def test_memory_is_the_mib_that_a_pod_may_use_and_others_share_the_rest() -> None:
    """KAI: with 2000 a pod may use up to 2000 MiB, and the rest of the GPU is for others."""
    webhook = webhook_of(KAI)
    first = webhook.decide(kai(memory="2000"), uid="1")
    second = webhook.decide(kai(memory="70000"), uid="2")
    assert dict(first.env())["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
    assert limits(first) == {"nvidia.com/gpu-0": "1"}
    assert limits(second) == {"nvidia.com/gpu-0": "7"}


def test_a_named_container_gets_the_share_as_with_kai() -> None:
    found = kai(memory="2000", fraction_container_name="second")
    found["spec"]["containers"].append(container("second"))
    assert limits(webhook_of(KAI).decide(found), "second") == {"nvidia.com/gpu-0": "1"}


@pytest.mark.parametrize("amount", [{"fraction": "0.5"}, {"memory": "2000"}])
def test_a_whole_gpu_and_the_amount_become_the_share_where_kai_denies_it(amount: dict[str, str]) -> None:
    found = kai(**amount)
    found["spec"]["containers"] = [container(limits={"nvidia.com/gpu": "1"})]
    decided = webhook_of(KAI).decide(found)
    assert decided.allowed
    assert "nvidia.com/gpu" not in limits(decided)


ITS_OWN = "but a share is its own limit: request that amount in"
ALONE = "gpu-memory-limit needs gpu-memory: set the amount there, since a share is its own limit"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"fraction": "0.25", "fraction_limit": "0.8"},
            (
                'gpu-fraction-limit "0.8" is not gpu-fraction "0.25",'
                f" {ITS_OWN} gpu-fraction, or remove the limit"
            ),
        ),
        (
            {"memory": "2000", "memory_limit": "4G"},
            f'gpu-memory-limit "4G" is not gpu-memory "2000", {ITS_OWN} gpu-memory, or remove the limit',
        ),
        ({"memory_limit": "4000"}, ALONE),
        ({"fraction": "0.5", "memory_limit": "4000"}, ALONE),
    ],
)
def test_a_limit_that_is_no_share_is_denied_by_name(said: dict[str, str], message: str) -> None:
    assert webhook_of(KAI).decide(kai(**said)).message == message


def test_mps_which_kai_puts_into_such_a_pod_is_denied_by_name() -> None:
    found = kai(fraction="0.5")
    found["metadata"]["annotations"]["mps"] = "true"
    denied = webhook_of(KAI).decide(found)
    assert (denied.code, denied.message) == (
        "alias-not-allowed",
        "annotation mps is not supported: remove it",
    )
    found["metadata"]["annotations"]["mps"] = "false"
    assert webhook_of(KAI).decide(found).allowed
