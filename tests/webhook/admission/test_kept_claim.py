"""Mode dra: a claim of an earlier review is kept only if all of the pod agrees with it."""

import copy

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import ClaimedShare, template_name
from modes.fraction import Fraction
from tests.webhook.admission.test_share_claim import claims, webhook
from tests.webhook.support import pod
from tests.webhook.support.gpu_pods import asking_memory, sharing

MEMORY = Fraction.of_memory(5120, 8)
KEPT = template_name(ClaimedShare(DRIVER, MEMORY, (24576,)))


@pytest.fixture
def injected():
    """A pod that was injected when the cluster had other cards."""
    return webhook({24576: 1}).decide(asking_memory("5Gi")).stored


def template(decided):
    return claims(decided)[0]["resourceClaimTemplateName"]


def test_an_invented_size_does_not_turn_a_few_mebibytes_into_a_whole_card(injected):
    """The honest annotations of another pod with the template of a claim for all of a card."""
    forged = template_name(ClaimedShare(DRIVER, MEMORY, (5120,)))
    changed = copy.deepcopy(injected)
    changed["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = forged
    assert template(webhook({24576: 1}).decide(changed)) == KEPT


def template_of(found):
    return found["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]


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
    changed = copy.deepcopy(injected)
    changed["metadata"]["annotations"][name] = value
    assert template(webhook().decide(changed)) != KEPT


@pytest.mark.parametrize("sizes", [(40960, 24576), (24576, 24576)])
def test_sizes_in_an_order_that_no_review_writes_make_it_a_new_pod(injected, sizes):
    changed = copy.deepcopy(injected)
    name = template_name(ClaimedShare(DRIVER, MEMORY, sizes))
    changed["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name
    assert template(webhook().decide(changed)) != name


def test_a_limit_that_is_written_into_the_pod_is_of_the_one_size_that_the_claim_names():
    known = webhook({40960: 1, 163840: 1}, "resources: {mode: dra, driver: gpu.nvidia.com}")
    injected = known.decide(pod()).stored
    size = int(injected["metadata"]["annotations"]["clearml-injector/memory-mib"]) * 2
    [other] = {40960, 163840} - {size}
    name = template_name(ClaimedShare(NVIDIA_DRIVER, Fraction(4, 8), (other,)))
    changed = copy.deepcopy(injected)
    changed["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name
    assert template(known.decide(changed)) != name


def shared_pod():
    return webhook().decide(sharing("train=0.500,eval=0.250", "0.750")).stored


def test_the_parts_of_an_earlier_review_stay():
    decided = webhook({24576: 1}).decide(shared_pod())
    assert decided.patch == []


@pytest.mark.parametrize("parts", ["train=0.250,eval=0.500", "eval=0.250,train=0.500", "train=0.750"])
def test_other_parts_make_it_a_new_pod(parts):
    changed = shared_pod()
    before = template_of(changed)
    changed["metadata"]["annotations"]["clearml-injector/containers"] = parts
    if parts == "train=0.750":
        changed["spec"]["containers"][1]["resources"] = {}
    decided = webhook().decide(changed)
    assert template(decided) != before


def test_a_container_that_names_an_unknown_request_of_the_claim_does_not_use_the_share(injected):
    changed = copy.deepcopy(injected)
    changed["spec"]["containers"][0]["resources"]["claims"][0]["request"] = "nothing"
    decided = webhook().decide(changed)
    assert not decided.allowed or decided.patch
