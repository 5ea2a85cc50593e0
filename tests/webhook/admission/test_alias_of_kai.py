"""What KAI Scheduler publishes of gpu-fraction, gpu-memory and num-devices, and what alias `kai` does.

KAI's column is that of its documentation on GPU sharing and of the validation in its admission webhook
(kai-scheduler/KAI-Scheduler, d5bc503a of August 2026). Where ours is stricter on purpose, or takes more,
docs/operating/other-systems.md says so. What it has since its release 0.18 (request and limit of a container,
compute modes) is that of its docs/gpu-sharing and gpu_fraction_validation of September 2026.
"""

import pytest

from tests.webhook.admission.test_aliases import KAI, MEMORY_LABEL, check_denied, decide, kai, labels, limits
from tests.webhook.support import LABEL, container, pod


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [
        # A fraction is a decimal number between 0 and 1, both excluded.
        ({"fraction": "0.5"}, True),
        ({"fraction": "1"}, False),
        # Memory is a whole number of MiB from 1 up.
        ({"memory": "2000"}, True),
        ({"memory": "0"}, False),
        ({"fraction": "0.5", "fraction_num_devices": "2"}, True),
        ({"memory": "2000", "fraction_num_devices": "two"}, False),
        # A share is its own limit: one of Run:ai's that says the same says nothing more.
        ({"fraction": "0.5", "fraction_limit": "0.50"}, True),
        ({"memory": "2000", "memory_limit": "1" * 100_000}, False),
        # Two amounts contradict each other.
        ({"fraction": "0.5", "memory": "2000"}, False),
        # Otherwise than KAI, as docs/operating/other-systems.md says: KAI takes amounts that the policy does
        # not list, and other ways to write one, and lets wait what no node can ever hold.
        ({"fraction": "0.3"}, False),
        ({"memory": "02000"}, False),
        ({"memory": "99999999"}, False),
        ({"fraction": "0.5", "fraction_num_devices": "9"}, False),
    ],
)
def test_amounts_are_taken_and_denied_as_kai_does_but_where_the_page_says_so(said, is_taken):
    assert decide(KAI, kai(**said)).allowed is is_taken


def test_a_named_container_gets_the_share_as_with_kai():
    found = kai(memory="2000", fraction_container_name="second")
    found["spec"]["containers"].append(container("second"))
    assert limits(decide(KAI, found), "second") == {"nvidia.com/gpu-0": "1"}


@pytest.mark.parametrize("amount", [{"fraction": "0.5"}, {"memory": "2000"}])
def test_a_whole_gpu_and_the_amount_become_the_share_where_kai_denies_it(amount):
    found = kai(**amount)
    found["spec"]["containers"] = [container(limits={"nvidia.com/gpu": "1"})]
    assert "nvidia.com/gpu" not in limits(decide(KAI, found))


OF_TRAIN, OF_SECOND = "nvidia.com/container.train.", "nvidia.com/container.second.gpu-memory.request"
REQUEST, LIMIT = f"{OF_TRAIN}gpu-memory.request", f"{OF_TRAIN}gpu-memory.limit"
MODE, OF_NONE = f"{OF_TRAIN}gpu-compute.mode", REQUEST.replace("train", "none")
EARLY = "nvidia.cdi.k8s.io/train.gpu-memory.request"


def says(annotations):
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
def test_the_request_of_one_container_becomes_its_share(annotations, label):
    decided = decide(KAI, says(annotations))
    assert labels(decided) == label
    assert limits(decided).keys() == {"nvidia.com/gpu-0"}
    assert decided.annotations.keys().isdisjoint(annotations)


ITS_OWN = "but a share is its own limit: request that amount, or remove the limit"
ALONE = "gpu-memory-limit needs gpu-memory: set the amount there, since a share is its own limit"
ONLY_ONE = "use only one of them, or use our label and clearml-injector/containers"
NO_INSTANCE = f"is not supported: use gpu-memory, or the label {MEMORY_LABEL}"
NO_MEMORY = 'is not an amount of memory: use a value such as "4Gi"'
TWO_AMOUNTS = "both set an amount: keep one"
ONLY_SLICING = 'is not supported: use "time-slicing", or remove it'
DEVICES = f"{OF_TRAIN}gpus.devices"


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"gpu-fraction": "0.3"}, 'gpu-fraction "0.3" is not a fraction of policy default: use 0.125'),
        ({"gpu-fraction": "9" * 100_000}, 'gpu-fraction "999999999999..." is not a fraction'),
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
        ({REQUEST: "much"}, f'{REQUEST} "much" {NO_MEMORY}'),
        ({REQUEST: "4096"}, f'{REQUEST} "4096" {NO_MEMORY}'),
        ({REQUEST: "4Gi", "gpu-memory": "4"}, f"annotations {REQUEST} and gpu-memory {TWO_AMOUNTS}"),
        ({REQUEST: "4Gi", "gpu-fraction": "0.5"}, f"annotations gpu-fraction and {REQUEST} {TWO_AMOUNTS}"),
        ({REQUEST: "4Gi", MODE: "sm-sharing"}, f'annotation {MODE} "sm-sharing" {ONLY_SLICING}'),
        ({MODE: "time-slicing"}, f"annotation {MODE} needs an amount: add {REQUEST}"),
        (
            {REQUEST: "4Gi", OF_SECOND: "4Gi"},
            f'annotation {REQUEST} is not about container "second": {ONLY_ONE}',
        ),
        ({OF_NONE: "4Gi"}, f"annotation {OF_NONE} names no container of the pod: use one of its names"),
        ({DEVICES: "all"}, f"annotation {DEVICES} is not supported: remove it"),
        ({EARLY: "30GiB"}, f'annotation {EARLY} is of KAI before 0.18: write it as in {REQUEST}: "30Gi"'),
        ({"nvidia.com/mig-1g.10gb": "1"}, f"annotation nvidia.com/mig-1g.10gb {NO_INSTANCE}"),
        ({"mig-profile": "1g.10gb"}, f"annotation mig-profile {NO_INSTANCE}"),
        ({"gpu-fraction": "0.5", "mps": "true"}, "annotation mps is not supported: remove it"),
    ],
)
def test_what_has_no_equal_here_is_denied_by_name(annotations, message):
    check_denied(KAI, says(annotations), message)


def test_an_amount_as_a_label_is_denied():
    found = pod(fraction=None, labels={"gpu-fraction": "0.5"})
    check_denied(KAI, found, "label gpu-fraction has no effect: write it as an annotation")


@pytest.mark.parametrize(
    "annotation", ["nvidia.cdi.k8s.io/container.train", "nvidia.com/other", "example.com/mig-profile"]
)
def test_annotations_that_only_look_alike_ask_for_nothing(annotation):
    assert decide(KAI, says({annotation: "x"})).code == "not-labelled"
