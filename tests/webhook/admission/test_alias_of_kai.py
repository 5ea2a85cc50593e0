"""What KAI Scheduler publishes of gpu-fraction, gpu-memory and num-devices, and what alias `kai` does.

KAI's column is that of its documentation on GPU sharing and of the validation in its admission webhook
(kai-scheduler/KAI-Scheduler, d5bc503a of August 2026). Where ours is stricter on purpose, or takes more,
docs/operating/other-systems.md says so.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.webhook.admission.test_aliases import KAI, kai, limits, webhook_of
from tests.webhook.support import container, policies

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
        ({"fraction": "0.50"}, "taken"),
        ({"fraction": "0"}, "denied"),
        ({"fraction": "1"}, "denied"),
        ({"fraction": "1.0"}, "denied"),
        ({"fraction": "1.5"}, "denied"),
        ({"fraction": "-0.5"}, "denied"),
        ({"fraction": "half"}, "denied"),
        ({"fraction": ""}, "denied"),
        # Memory is a whole number of MiB from 1 up.
        ({"memory": "2000"}, "taken"),
        ({"memory": "1"}, "taken"),
        ({"memory": "0"}, "denied"),
        ({"memory": "-1"}, "denied"),
        ({"memory": "1.5"}, "denied"),
        ({"memory": "4Gi"}, "denied"),
        ({"memory": "much"}, "denied"),
        ({"memory": ""}, "denied"),
        ({"memory": BEYOND_UINT64}, "denied"),
        # Devices are a whole number from 1 up, with one of the two.
        ({"fraction": "0.5", "fraction_num_devices": "1"}, "taken"),
        ({"fraction": "0.5", "fraction_num_devices": "2"}, "taken"),
        ({"memory": "2000", "fraction_num_devices": "2"}, "taken"),
        ({"fraction": "0.5", "fraction_num_devices": "0"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "-1"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "1.5"}, "denied"),
        ({"memory": "2000", "fraction_num_devices": "two"}, "denied"),
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


def test_a_fraction_of_a_gpu_is_that_part_of_its_memory() -> None:
    """KAI: with 0.5 a pod may use up to half of the memory of a GPU; ours enforces it."""
    decided = webhook_of(KAI).decide(kai(fraction="0.5"))
    assert dict(decided.env())["CUDA_DEVICE_MEMORY_LIMIT_0"] == "40960m"


def test_memory_is_the_mib_that_a_pod_may_use_and_others_share_the_rest() -> None:
    """KAI: with 2000 a pod may use up to 2000 MiB, and the rest of the GPU is for others."""
    webhook = webhook_of(KAI)
    first = webhook.decide(kai(memory="2000"), uid="1")
    second = webhook.decide(kai(memory="70000"), uid="2")
    assert dict(first.env())["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
    assert limits(first) == {"nvidia.com/gpu-0": "1"}
    assert limits(second) == {"nvidia.com/gpu-0": "7"}


@pytest.mark.parametrize(("amount", "mib"), [({"fraction": "0.5"}, "40960m"), ({"memory": "2000"}, "2000m")])
def test_several_devices_are_different_ones_with_that_amount_of_each(
    amount: dict[str, str], mib: str
) -> None:
    decided = webhook_of(KAI).decide(kai(**amount, fraction_num_devices="2"))
    assert set(limits(decided)) == {"nvidia.com/gpu-0", "nvidia.com/gpu-1"}
    variables = dict(decided.env())
    assert [variables[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] for index in range(2)] == [mib, mib]


def test_a_policy_that_lists_another_fraction_takes_it_as_kai_does() -> None:
    wide = policies('aliases: {kai: true}\nfractions: {"0.3": 3}')
    assert verdict(wide, kai(fraction="0.3")) == "taken"


def test_a_named_container_gets_the_share_as_with_kai() -> None:
    found = kai(memory="2000", fraction_container_name="second")
    found["spec"]["containers"].append(container("second"))
    assert limits(webhook_of(KAI).decide(found), "second") == {"nvidia.com/gpu-0": "1"}


def test_of_several_containers_none_is_guessed_where_kai_takes_the_first() -> None:
    found = kai(fraction="0.5")
    found["spec"]["containers"].append(container("second"))
    assert webhook_of(KAI).decide(found).code == "container-ambiguous"


def test_an_init_container_is_none_to_have_the_share_though_kai_lets_one() -> None:
    found = kai(fraction="0.5", fraction_container_name="setup")
    found["spec"]["initContainers"] = [container("setup")]
    assert webhook_of(KAI).decide(found).code == "container-unknown"


@pytest.mark.parametrize("amount", [{"fraction": "0.5"}, {"memory": "2000"}])
def test_a_whole_gpu_and_the_amount_become_the_share_where_kai_denies_it(amount: dict[str, str]) -> None:
    found = kai(**amount)
    found["spec"]["containers"] = [container(limits={"nvidia.com/gpu": "1"})]
    decided = webhook_of(KAI).decide(found)
    assert decided.allowed
    assert "nvidia.com/gpu" not in limits(decided)


def test_of_several_containers_the_one_that_asks_for_a_gpu_has_the_share() -> None:
    found = kai(fraction="0.5")
    found["spec"]["containers"].append(container("second", limits={"nvidia.com/gpu": "1"}))
    assert limits(webhook_of(KAI).decide(found), "second") == {"nvidia.com/gpu-0": "4"}


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        # A share is its own limit: one that says the same says nothing more.
        ({"fraction": "0.5", "fraction_limit": "0.5"}, "taken"),
        ({"fraction": "0.5", "fraction_limit": "0.50"}, "taken"),
        ({"memory": "2000", "memory_limit": "2000"}, "taken"),
        # Run:ai lets a pod grow up to a higher limit, and refuses a lower one.
        ({"fraction": "0.25", "fraction_limit": "0.8"}, "denied"),
        ({"fraction": "0.5", "fraction_limit": "0.25"}, "denied"),
        ({"memory": "2000", "memory_limit": "4000"}, "denied"),
        ({"memory": "2000", "memory_limit": "4G"}, "denied"),
        ({"memory": "2000", "memory_limit": "1" * 100_000}, "denied"),
        ({"fraction": "0.5", "fraction_limit": ""}, "denied"),
        ({"fraction": "0.5", "memory_limit": "4000"}, "denied"),
        ({"fraction_limit": "0.5"}, "denied"),
        ({"memory_limit": "4000"}, "denied"),
    ],
)
def test_limits_of_run_ais_are_never_ignored(said: dict[str, str], ours: Verdict) -> None:
    assert verdict(KAI, kai(**said)) == ours
    if ours == "taken":
        assert "limit" not in " ".join(webhook_of(KAI).decide(kai(**said)).annotations)


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


@pytest.mark.parametrize("name", ["fraction_limit", "memory_limit", "fraction_num_devices"])
def test_with_our_own_label_they_are_refused_by_name(name: str) -> None:
    found = kai(**{name: "2"})
    found["metadata"]["labels"] = {"clearml-injector/fraction": "0.500"}
    denied = webhook_of(KAI).decide(found)
    assert denied.code == "other-gpu-system"
    assert f"gpu-{name.replace('_', '-')}" in denied.message


def test_a_native_sidecar_named_by_kais_annotation_gets_the_share() -> None:
    found = kai(fraction="0.5", fraction_container_name="side")
    found["spec"]["initContainers"] = [container("side", restartPolicy="Always")]
    assert limits(webhook_of(KAI).decide(found), "side") == {"nvidia.com/gpu-0": "4"}
