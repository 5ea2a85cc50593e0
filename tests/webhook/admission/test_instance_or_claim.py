"""Instances and claims under one policy: a pod gets one of them, and keeps it."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import ClaimedShare, template_name
from modes.fraction import Fraction
from tests.ledger.cluster import gpu_node
from tests.ledger.test_instances import A100_80, mig_node, native
from tests.ledger.test_quotas_of_claims import offer
from tests.webhook.support import pod, policies
from tests.webhook.support.gpu_pods import asking_memory, expressions, webhook_of

ONE = "nvidia.com/mig-1g.10gb"
PREFER = "resources: {mode: dra, driver: DRIVER, prefer: [mig, dra]}\nmemory: {allowed: true}"
LABELLED = pod(fraction="0.125")


def webhook(*, is_full=False, driver=DRIVER):
    held = (native("x", "m", "1g.10gb"),) if is_full else ()
    policy_set = policies(PREFER.replace("DRIVER", driver))
    nodes = mig_node("m", A100_80, p1g_10gb=1), gpu_node("d", 0)
    found = webhook_of(*nodes, policy_set=policy_set, holders=held)
    found.ledger.put_offer(offer("d", 81920, driver=driver))
    return found


@pytest.mark.parametrize("driver", [DRIVER, NVIDIA_DRIVER])
@pytest.mark.parametrize("found", [LABELLED, asking_memory("8Gi")], ids=["fraction", "memory"])
def test_a_pod_is_written_for_the_one_that_has_room(found, driver):
    """Both are reviewed again, which changes nothing."""
    given = webhook(driver=driver).decide(found)
    assert given.container()["resources"]["limits"] == {ONE: "1"}
    assert expressions(given) == {("nvidia.com/gpu.product", "In"): [A100_80]}
    assert {"resourceClaims", "initContainers"}.isdisjoint(given.spec)
    assert given.annotations["clearml-injector/slices"] == "1"
    claimed = webhook(is_full=True, driver=driver).decide(found)
    assert [each["name"] for each in claimed.spec["resourceClaims"]] == ["gpu-fraction"]
    assert "limits" not in claimed.container()["resources"]
    assert ("initContainers" in claimed.spec) == (driver == NVIDIA_DRIVER)


@pytest.mark.parametrize("is_full", [True, False], ids=["claim", "instance"])
def test_a_pod_keeps_what_it_has_though_the_other_has_room_by_now(is_full):
    stored = webhook(is_full=is_full).decide(LABELLED).stored
    other = webhook(is_full=not is_full)
    if not is_full:
        other.ledger.remove_offer("d")
    assert other.decide(stored).patch == []


def test_a_pod_whose_claim_does_not_agree_with_it_gets_another_claim_and_no_instance():
    name = template_name(ClaimedShare(DRIVER, Fraction(7, 8)))
    claim = {"name": "gpu-fraction", "resourceClaimTemplateName": name}
    decided = webhook().decide(pod(fraction="0.125", resourceClaims=[claim]))
    [kept] = decided.spec["resourceClaims"]
    assert kept["resourceClaimTemplateName"].startswith("gpu-fraction-1of8-")
    assert "limits" not in decided.container()["resources"]


def test_a_pod_with_a_claim_gets_no_instance_in_addition():
    stored = webhook(is_full=True).decide(LABELLED).stored
    stored["spec"]["containers"][0]["resources"] |= {"limits": {ONE: "1"}, "requests": {ONE: "1"}}
    decided = webhook().decide(stored)
    assert (decided.allowed, decided.code) == (False, "other-gpu-system")


def test_annotations_without_claim_or_instance_count_for_nothing():
    stored = webhook(is_full=True).decide(LABELLED).stored
    del stored["spec"]["resourceClaims"], stored["spec"]["containers"][0]["resources"]["claims"]
    assert webhook().decide(stored).container()["resources"]["limits"] == {ONE: "1"}


def test_an_instance_of_another_kind_than_the_pod_accepts_is_chosen_again():
    stored = webhook().decide(LABELLED).stored
    stored["metadata"]["annotations"]["clearml-injector/gpu-model"] = "H100"
    assert webhook().decide(stored).code == "no-matching-node"
