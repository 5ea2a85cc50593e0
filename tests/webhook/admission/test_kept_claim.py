"""Mode dra: a claim of an earlier review is kept only if all of the pod agrees with it."""

import copy

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import ClaimedShare, template_name
from modes.fraction import Fraction
from tests.webhook.admission.test_share_claim import webhook
from tests.webhook.support import pod
from tests.webhook.support.gpu_pods import asking_memory, sharing

MEMORY = Fraction.of_memory(5120, 8)
PARTS = "clearml-injector/containers"


@pytest.fixture
def injected():
    """A pod that was injected when the cluster had other cards."""
    return webhook({24576: 1}).decide(asking_memory("5Gi")).stored


def template(found):
    return found["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]


def with_template(found, share):
    changed = copy.deepcopy(found)
    changed["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = template_name(share)
    return changed


def with_annotation(found, name, value):
    changed = copy.deepcopy(found)
    changed["metadata"]["annotations"][name] = value
    return changed


# An invented size would turn a few MiB into a whole card; the others are in an order that no review writes.
@pytest.mark.parametrize("sizes", [(5120,), (40960, 24576), (24576, 24576)])
def test_a_template_of_sizes_that_no_review_would_write_is_replaced(injected, sizes):
    changed = with_template(injected, ClaimedShare(DRIVER, MEMORY, sizes))
    assert template(webhook({24576: 1}).decide(changed).stored) == template(injected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clearml-injector/slices", "5"),
        ("clearml-injector/gpu-container", "other"),
        ("clearml-injector/injected", "other@0"),
        ("clearml-injector/gpu-index", "0"),
        ("clearml-injector/memory-mib", "1"),
    ],
)
def test_another_annotation_makes_it_a_new_pod(injected, name, value):
    decided = webhook().decide(with_annotation(injected, name, value))
    assert template(decided.stored) != template(injected)


def test_a_limit_that_is_written_into_the_pod_is_of_the_one_size_that_the_claim_names():
    known = webhook({40960: 1, 163840: 1}, "resources: {mode: dra, driver: gpu.nvidia.com}")
    injected = known.decide(pod()).stored
    size = int(injected["metadata"]["annotations"]["clearml-injector/memory-mib"]) * 2
    [other] = {40960, 163840} - {size}
    changed = with_template(injected, ClaimedShare(NVIDIA_DRIVER, Fraction(4, 8), (other,)))
    assert template(known.decide(changed).stored) != template(changed)


@pytest.mark.parametrize("parts", ["train=0.250,eval=0.500", "eval=0.250,train=0.500", "train=0.750"])
def test_only_the_parts_of_an_earlier_review_stay(parts):
    stored = webhook().decide(sharing("train=0.500,eval=0.250", "0.750")).stored
    assert webhook({24576: 1}).decide(stored).patch == []
    changed = with_annotation(stored, PARTS, parts)
    if parts == "train=0.750":
        changed["spec"]["containers"][1]["resources"] = {}
    assert template(webhook().decide(changed).stored) != template(stored)


def test_a_container_that_names_an_unknown_request_of_the_claim_does_not_use_the_share(injected):
    injected["spec"]["containers"][0]["resources"]["claims"][0]["request"] = "nothing"
    decided = webhook().decide(injected)
    assert not decided.allowed or decided.patch
