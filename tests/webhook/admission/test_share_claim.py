"""Mode dra: what becomes of a pod; every admitted pod is reviewed again, which changes nothing."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from modes.claim import ClaimedShare, template_name, template_spec
from modes.fraction import Fraction
from tests.webhook.support import container, pod, policies
from tests.webhook.support.gpu_pods import memory_limits, sharing, webhook_of

POLICY = "resources: {mode: dra}\nmemory: {allowed: true}"
HALF = Fraction(4, 8)
USES = [{"name": "gpu-fraction"}]


def webhook(cards=None, policy=POLICY):
    found = webhook_of(policy_set=policies(policy))
    for driver in (DRIVER, NVIDIA_DRIVER):
        found.ledger.cards.put_slice(offer(driver, {40960: 1, 81920: 1} if cards is None else cards))
    return found


def offer(driver, cards):
    """A ResourceSlice of a driver with so many cards of each MiB."""
    sizes = [mib for mib, count in cards.items() for _ in range(count)]
    offered = [
        ClaimableCard(f"gpu-{n}", mib, model=f"NVIDIA A100-{mib // 1024}") for n, mib in enumerate(sizes)
    ]
    return OfferedSlice(driver, driver, cards=tuple(offered))


def claims(decided):
    return decided.spec["resourceClaims"]


def of(share):
    return [{"name": "gpu-fraction", "resourceClaimTemplateName": template_name(share)}]


def test_a_claim_replaces_what_the_pod_requests():
    """Also the template of another share."""
    whole = container(resources={"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}})
    forged = of(ClaimedShare(DRIVER, Fraction(7, 8)))
    decided = webhook().decide(pod(containers=[whole], resourceClaims=forged))
    assert decided.allowed
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF))
    cpu = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    assert decided.container()["resources"] == {**cpu, "claims": USES}
    assert {"affinity", "volumes"}.isdisjoint(decided.spec)
    assert decided.annotations["clearml-injector/slices"] == "4"
    assert {"clearml-injector/gpu-index", "clearml-injector/memory-mib"}.isdisjoint(decided.annotations)


def test_with_nvidias_driver_the_limit_is_of_the_one_size_in_the_claim():
    policy = "resources: {mode: dra, driver: gpu.nvidia.com}"
    decided = webhook({81559: 2, 40960: 1}, policy).decide(pod())
    assert claims(decided) == of(ClaimedShare(NVIDIA_DRIVER, HALF, (81559,)))
    assert decided.annotations["clearml-injector/memory-mib"] == "40779"
    assert memory_limits(decided) == {"CUDA_DEVICE_MEMORY_LIMIT": "40779m"}


@pytest.mark.parametrize(
    "claim",
    [
        {"name": "gpu-fraction", "resourceClaimTemplateName": "mine"},
        {"name": "gpu-fraction", "resourceClaimName": "mine"},
        {"name": "other", "resourceClaimTemplateName": "gpu-fraction-whole-0123456789abcdef"},
    ],
)
def test_claims_that_are_not_ours_are_denied(claim):
    assert webhook().decide(pod(resourceClaims=[claim])).code == "other-gpu-system"


def test_no_sidecar_uses_the_claim():
    both = [container("task"), container("sidecar", resources={"claims": USES})]
    note = {"annotations": {"clearml-injector/container": "task"}}
    decided = webhook().decide(pod(containers=both, metadata=note))
    assert decided.code == "several-gpu-containers"


SHARED = Fraction(6, 8).shared_by([Fraction(4, 8), Fraction(2, 8)])
TWO = sharing("train=0.500,eval=0.250", "0.750")


def uses(decided, name):
    return decided.container(name)["resources"].get("claims")


def own(number):
    return [{"name": "gpu-fraction", "request": f"gpu-{number}"}]


@pytest.mark.parametrize("any_card", [False, True])
def test_containers_that_share_a_card_each_use_their_own_request(any_card):
    decided = webhook(policy=POLICY + ("\ncontainers: any-gpu" if any_card else "")).decide(TWO)
    assert claims(decided) == of(ClaimedShare(DRIVER, SHARED, any_card=any_card))
    assert (uses(decided, "train"), uses(decided, "eval")) == (own(0), own(1))
    assert "resources" not in decided.container("proxy")
    assert decided.annotations["clearml-injector/slices"] == "6"
    assert decided.annotations["clearml-injector/gpu-container"] == "train,eval"


def test_with_nvidias_driver_each_container_has_its_own_limit():
    policy = "resources: {mode: dra, driver: gpu.nvidia.com}"
    init = container("prepare", resources={"limits": {"nvidia.com/gpu": "1"}})
    pod_of_two = sharing("train=0.500,eval=0.250", "0.750", initContainers=[init])
    decided = webhook({81559: 1}, policy).decide(pod_of_two)
    share = ClaimedShare(NVIDIA_DRIVER, SHARED, (81559,))
    assert claims(decided) == of(share)
    [first, second] = template_spec(share)["spec"]["devices"]["requests"]
    for name, request, mib in (("train", first, 40779), ("eval", second, 20389), ("prepare", first, 40779)):
        assert memory_limits(decided, name) == {"CUDA_DEVICE_MEMORY_LIMIT": f"{mib}m"}
        assert request["exactly"]["capacity"]["requests"]["memory"] == f"{mib}Mi"
    assert decided.annotations["clearml-injector/memory-mib"] == "40779,20389"


ANYTHING = {"name": "gpu-fraction", "request": "anything"}
WHOLE = {"name": "gpu-fraction", "request": "gpu"}
TWICE = 'container "eval" lists claim gpu-fraction twice'


def two_with(**used):
    """A pod whose containers share a card, and say what they use of the claim."""
    names = ("train", "eval", "proxy")
    made = [container(name, resources={"claims": used[name]} if name in used else {}) for name in names]
    return sharing("train=0.500,eval=0.250", "0.750", made)


@pytest.mark.parametrize("forged", [USES, [WHOLE], own(0), [ANYTHING]])
def test_whatever_a_container_names_of_the_claim_it_uses_its_own_request(forged):
    assert uses(webhook().decide(two_with(eval=forged)), "eval") == own(1)


@pytest.mark.parametrize("first", [*own(1), *own(0), ANYTHING])
def test_no_container_uses_the_claim_twice(first):
    decided = webhook().decide(two_with(eval=[first, *own(0)]))
    assert decided.code == "other-gpu-system"
    assert TWICE in decided.message


@pytest.mark.parametrize("request_", [WHOLE, *own(0), *own(7)])
def test_a_container_without_a_part_uses_no_request(request_):
    assert webhook().decide(two_with(proxy=[request_])).code == "several-gpu-containers"


def test_a_pod_over_its_quota_is_denied_and_a_second_review_counts_nobody_twice():
    """`decide` reviews each admitted pod again, which must neither deny nor change it."""
    found = webhook(policy=f"{POLICY}\nquotas: {{namespaces: {{team: {{slices: 4}}}}}}")
    copied = found.decide(pod()).stored
    assert "clearml-injector/reservation" in copied["metadata"]["annotations"]
    copied["metadata"]["name"] = "copy"
    for other in (pod(), copied):
        assert "4 of 4 slices are used" in found.decide(other, uid="second").message
