"""What KAI Scheduler publishes of gpu-fraction, gpu-memory and num-devices, and what alias `kai` does.

KAI's column is that of its documentation on GPU sharing and of the validation in its admission webhook
(kai-scheduler/KAI-Scheduler, d5bc503a of August 2026). Where ours is stricter on purpose, or takes more,
docs/operating/other-systems.md says so. What it has since its release 0.18 (request and limit of a container,
compute modes) is that of its docs/gpu-sharing and gpu_fraction_validation of September 2026.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.webhook.admission.test_aliases import KAI, MEMORY_LABEL, kai, limits, webhook_of
from tests.webhook.support import LABEL, container, pod, policies

Verdict = Literal["taken", "denied", "left alone"]


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
        ({"fraction": "1"}, "denied"),
        # Memory is a whole number of MiB from 1 up.
        ({"memory": "2000"}, "taken"),
        ({"memory": "0"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "2"}, "taken"),
        ({"memory": "2000", "fraction_num_devices": "two"}, "denied"),
        # A share is its own limit: one of Run:ai's that says the same says nothing more.
        ({"fraction": "0.5", "fraction_limit": "0.50"}, "taken"),
        ({"memory": "2000", "memory_limit": "1" * 100_000}, "denied"),
        # Two amounts contradict each other.
        ({"fraction": "0.5", "memory": "2000"}, "denied"),
        # Otherwise than KAI, as docs/operating/other-systems.md says.
        # KAI takes amounts that the policy does not list, and other ways to write one.
        ({"fraction": "0.3"}, "denied"),
        ({"memory": "02000"}, "denied"),
        # What no node can ever hold waits with KAI.
        ({"memory": "99999999"}, "denied"),
        ({"fraction": "0.5", "fraction_num_devices": "9"}, "denied"),
        # KAI denies devices alone; here they are no share: such a pod asks nothing of ours.
        ({"fraction_num_devices": "2"}, "left alone"),
    ],
)
def test_amounts_are_taken_and_denied_as_kai_does_but_where_the_page_says_so(
    said: dict[str, str], both: Verdict
) -> None:
    assert verdict(KAI, kai(**said)) == both


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


REQUEST, LIMIT, MODE = (
    f"nvidia.com/container.train.{key}"
    for key in ("gpu-memory.request", "gpu-memory.limit", "gpu-compute.mode")
)
OF_NONE = REQUEST.replace("train", "none")
OF_SECOND = "nvidia.com/container.second.gpu-memory.request"
EARLY = "nvidia.cdi.k8s.io/train.gpu-memory.request"


def says(annotations: dict[str, str]) -> dict[str, Any]:
    """A pod with two containers and these annotations."""
    both = [container(), container("second")]
    return pod(fraction=None, metadata={"annotations": annotations}, containers=both)


@pytest.mark.parametrize(
    ("annotations", "label"),
    [
        ({REQUEST: "30Gi", LIMIT: "30Gi"}, {MEMORY_LABEL: "30720Mi"}),
        ({REQUEST: "30Gi", MODE: "time-slicing"}, {MEMORY_LABEL: "30720Mi"}),
        # Rounded up to whole MiB, as its node agent does.
        ({LIMIT: "4096M"}, {MEMORY_LABEL: "3907Mi"}),
        # Its own webhook writes the one from the other.
        ({REQUEST: "2000Mi", "gpu-memory": "2000", "gpu-memory.limit": "2000Mi"}, {MEMORY_LABEL: "2000Mi"}),
        ({"gpu-fraction": "0.5", MODE: "time-slicing"}, {LABEL: "0.500"}),
        ({"gpu-fraction-container-name": "train", REQUEST: "1Gi"}, {MEMORY_LABEL: "1024Mi"}),
    ],
)
def test_the_request_of_one_container_becomes_its_share(
    annotations: dict[str, str], label: dict[str, str]
) -> None:
    decided = webhook_of(KAI).decide(says(annotations))
    assert decided.stored["metadata"]["labels"] == label
    assert limits(decided).keys() == {"nvidia.com/gpu-0"}
    assert decided.annotations.keys().isdisjoint(annotations)
    assert webhook_of(None).decide(says(annotations)).code == "not-labelled"


ITS_OWN = "but a share is its own limit: request that amount, or remove the limit"
ALONE = "gpu-memory-limit needs gpu-memory: set the amount there, since a share is its own limit"
ONLY_ONE = "use only one of them, or use our label and clearml-injector/containers"
NO_INSTANCE = f"is not supported: use gpu-memory, or the label {MEMORY_LABEL}"


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (
            {"gpu-fraction": "0.25", "gpu-fraction-limit": "0.8"},
            f'gpu-fraction-limit "0.8" is not gpu-fraction "0.25", {ITS_OWN}',
        ),
        (
            {"gpu-memory": "2000", "gpu-memory.limit": "4G"},
            f'gpu-memory.limit "4G" is not gpu-memory "2000", {ITS_OWN}',
        ),
        ({"gpu-memory-limit": "4000"}, ALONE),
        ({REQUEST: "4Gi", LIMIT: "8Gi"}, f'{LIMIT} "8Gi" is not {REQUEST} "4Gi", {ITS_OWN}'),
        ({REQUEST: "much"}, f'{REQUEST} "much" is not an amount of memory: use a value such as "4Gi"'),
        ({REQUEST: "4096"}, f'{REQUEST} "4096" is not an amount of memory: use a value such as "4Gi"'),
        (
            {REQUEST: "4Gi", "gpu-memory": "4"},
            f"annotations {REQUEST} and gpu-memory both set an amount: keep one",
        ),
        (
            {REQUEST: "4Gi", "gpu-fraction": "0.5"},
            f"annotations gpu-fraction and {REQUEST} both set an amount: keep one",
        ),
        (
            {REQUEST: "4Gi", MODE: "sm-sharing"},
            f'annotation {MODE} "sm-sharing" is not supported: use "time-slicing", or remove it',
        ),
        ({MODE: "time-slicing"}, f"annotation {MODE} needs an amount: add {REQUEST}"),
        (
            {REQUEST: "4Gi", OF_SECOND: "4Gi"},
            f'annotation {REQUEST} is not about container "second": {ONLY_ONE}',
        ),
        ({OF_NONE: "4Gi"}, f"annotation {OF_NONE} names no container of the pod: use one of its names"),
        (
            {"nvidia.com/container.train.gpus.devices": "all"},
            "annotation nvidia.com/container.train.gpus.devices is not supported: remove it",
        ),
        ({EARLY: "30GiB"}, f'annotation {EARLY} is of KAI before 0.18: write it as in {REQUEST}: "30Gi"'),
        ({"nvidia.com/mig-1g.10gb": "1"}, f"annotation nvidia.com/mig-1g.10gb {NO_INSTANCE}"),
        ({"mig-profile": "1g.10gb"}, f"annotation mig-profile {NO_INSTANCE}"),
        ({"gpu-fraction": "0.5", "mps": "true"}, "annotation mps is not supported: remove it"),
    ],
)
def test_what_has_no_equal_here_is_denied_by_name(annotations: dict[str, str], message: str) -> None:
    denied = webhook_of(KAI).decide(says(annotations))
    assert (denied.code, denied.message) == ("alias-not-allowed", message)
    assert webhook_of(None).decide(says(annotations)).code == "not-labelled"


@pytest.mark.parametrize(
    "annotation", ["nvidia.cdi.k8s.io/container.train", "nvidia.com/other", "example.com/mig-profile"]
)
def test_annotations_that_only_look_alike_ask_for_nothing(annotation: str) -> None:
    assert verdict(KAI, says({annotation: "x"})) == "left alone"


@pytest.mark.parametrize("name", ["kai-scheduler", "runai-scheduler"])
def test_a_pod_for_another_systems_scheduler_is_denied_or_given_to_ours(name: str) -> None:
    found = kai(fraction="0.5")
    found["spec"]["schedulerName"] = name
    assert webhook_of(KAI).decide(found).message == (
        f"schedulerName {name} does not place pods that ask for shares here: remove it, or ask the admin to"
        " set aliases.schedulerName: remove"
    )
    given = webhook_of(policies("aliases: {kai: true, schedulerName: remove}")).decide(found)
    assert given.spec["schedulerName"] == "default-scheduler"
    assert given.outcome.injection.alias.endswith(f"; schedulerName {name} is removed")
    found["spec"]["schedulerName"] = "volcano"
    other = webhook_of(KAI).decide(found)
    assert (other.code, other.spec["schedulerName"]) == ("injected", "volcano")
