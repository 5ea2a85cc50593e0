"""Mode dra: what becomes of a pod; every admitted pod is reviewed again, which changes nothing."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.dra import DRIVER, NVIDIA_DRIVER, ClaimNames
from ledger.claimed_cards import ClaimableCard, OfferedSlice
from modes.claim import ClaimedShare, template_name, template_spec
from modes.claim_name import sizes_of_name
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.effort import examples
from tests.webhook.support import container, pod, policies
from tests.webhook.support.gpu_pods import asking_memory, memory_limits, on_gpus, sharing, webhook_of

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
    whole = container(resources={"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}})
    decided = webhook().decide(pod(containers=[whole]))
    assert decided.allowed
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF))
    assert decided.container()["resources"] == {
        "limits": {"cpu": "2"},
        "requests": {"cpu": "1"},
        "claims": USES,
    }
    assert decided.spec.get("affinity") is None
    assert decided.spec.get("volumes") is None
    notes = decided.annotations
    assert notes["clearml-injector/slices"] == "4"
    assert not {"clearml-injector/gpu-index", "clearml-injector/memory-mib"} & notes.keys()


def test_requested_memory_is_claimed_of_each_size_of_card():
    decided = webhook().decide(asking_memory("5Gi"))
    assert claims(decided) == of(ClaimedShare(DRIVER, Fraction.of_memory(5120, 8), (40960, 81920)))
    assert "clearml-injector/slices" not in decided.annotations


def test_several_gpus_and_kinds_are_part_of_the_claim():
    decided = webhook().decide(on_gpus("2"))
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF.on_each_of(2)))
    kinds = {"clearml-injector/gpu-model": "A100-80", "clearml-injector/min-gpu-memory": "60Gi"}
    decided = webhook().decide(pod(metadata={"annotations": kinds}))
    share = ClaimedShare(DRIVER, HALF, kinds=GpuKinds(("A100-80",), 61440))
    assert claims(decided) == of(share)
    assert decided.spec.get("affinity") is None


def test_whole_gpus_are_counted():
    found = webhook(policy='resources: {mode: dra}\nfractions: {"2": 16}')
    assert claims(found.decide(pod(fraction="2"))) == of(ClaimedShare(DRIVER, Fraction(16, 8)))


def test_an_init_container_that_requests_a_gpu_uses_the_same_claim():
    init = container("prepare", resources={"limits": {"nvidia.com/gpu": "1"}})
    decided = webhook().decide(
        pod(
            initContainers=[init],
            containers=[container(), container("log")],
            metadata={"annotations": {"clearml-injector/container": "train"}},
        )
    )
    assert decided.container("train")["resources"] == {"claims": USES}
    assert "resources" not in decided.container("log")
    assert decided.spec["initContainers"][0]["resources"]["claims"] == USES


def test_other_claims_stay():
    policy = f"{POLICY}\nallow: {{deviceClasses: [rdma.example.com]}}"
    nic = {"name": "not-a-gpu-rdma-example-com", "resourceClaimTemplateName": "nic"}
    used = container(resources={"claims": [{"name": nic["name"]}]})
    decided = webhook(policy=policy).decide(pod(containers=[used], resourceClaims=[nic]))
    assert claims(decided) == [nic, *of(ClaimedShare(DRIVER, HALF))]
    assert decided.container()["resources"]["claims"] == [{"name": nic["name"]}, *USES]


def test_with_nvidias_driver_the_limit_is_of_the_one_size_in_the_claim():
    policy = "resources: {mode: dra, driver: gpu.nvidia.com}"
    decided = webhook({81559: 2, 40960: 1}, policy).decide(pod())
    assert claims(decided) == of(ClaimedShare(NVIDIA_DRIVER, HALF, (81559,)))
    assert decided.annotations["clearml-injector/memory-mib"] == "40779"
    assert memory_limits(decided) == {"CUDA_DEVICE_MEMORY_LIMIT": "40779m"}


def test_a_template_of_another_share_is_replaced():
    forged = of(ClaimedShare(DRIVER, Fraction(7, 8)))
    decided = webhook().decide(pod(resourceClaims=forged))
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF))


@pytest.mark.parametrize(
    "claim",
    [
        {"name": "gpu-fraction", "resourceClaimTemplateName": "mine"},
        {"name": "gpu-fraction", "resourceClaimName": "mine"},
        {"name": "other", "resourceClaimTemplateName": "gpu-fraction-whole-0123456789abcdef"},
    ],
)
def test_claims_that_are_not_ours_are_denied(claim):
    decided = webhook().decide(pod(resourceClaims=[claim]))
    assert decided.code == "other-gpu-system"


def test_a_second_claim_of_our_name_is_denied():
    ours = of(ClaimedShare(DRIVER, HALF))
    assert webhook().decide(pod(resourceClaims=ours + ours)).code == "other-gpu-system"


def test_no_sidecar_uses_the_claim():
    sidecar = container("sidecar", resources={"claims": USES})
    note = {"annotations": {"clearml-injector/container": "train"}}
    decided = webhook().decide(pod(containers=[container(), sidecar], metadata=note))
    assert decided.code == "several-gpu-containers"


SHARED = Fraction(6, 8).shared_by([Fraction(4, 8), Fraction(2, 8)])


def uses(decided, name):
    return decided.container(name)["resources"].get("claims")


def own(number):
    return [{"name": "gpu-fraction", "request": f"gpu-{number}"}]


def test_containers_that_share_a_card_each_use_their_own_request():
    decided = webhook().decide(sharing("train=0.500,eval=0.250", "0.750"))
    assert claims(decided) == of(ClaimedShare(DRIVER, SHARED))
    assert (uses(decided, "train"), uses(decided, "eval")) == (own(0), own(1))
    assert "resources" not in decided.container("proxy")
    assert decided.annotations["clearml-injector/slices"] == "6"
    assert decided.annotations["clearml-injector/gpu-container"] == "train,eval"


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@settings(max_examples=examples(40))
@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_no_name_of_a_container_is_in_the_claim(names):
    first, second = names
    made = [container(name) for name in names]
    decided = webhook().decide(sharing(f"{first}=0.500,{second}=0.250", "0.750", made))
    assert claims(decided) == of(ClaimedShare(DRIVER, SHARED))
    assert (uses(decided, first), uses(decided, second)) == (own(0), own(1))


def test_containers_that_share_memory_claim_it_of_each_size_of_card():
    decided = webhook().decide(sharing("train=4Gi,eval=1431Mi", "5527Mi"))
    parts = [Fraction.of_memory(mib, 8) for mib in (4096, 1431)]
    assert claims(decided) == of(
        ClaimedShare(DRIVER, Fraction.of_memory(5527, 8).shared_by(parts), (40960, 81920))
    )
    assert "-5527mi-p4096-p1431-" in claims(decided)[0]["resourceClaimTemplateName"]


def test_an_init_container_uses_the_request_of_the_first_container():
    init = container("prepare", resources={"limits": {"nvidia.com/gpu": "1"}})
    decided = webhook().decide(sharing("eval=0.250,train=0.500", "0.750", initContainers=[init]))
    assert decided.spec["initContainers"][0]["resources"]["claims"] == own(0)
    assert (uses(decided, "eval"), uses(decided, "train")) == (own(0), own(1))


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


def test_containers_that_may_part_have_no_common_card_in_the_claim():
    decided = webhook(policy=f"{POLICY}\ncontainers: any-gpu").decide(
        sharing("train=0.500,eval=0.250", "0.750")
    )
    assert claims(decided) == of(ClaimedShare(DRIVER, SHARED, any_card=True))


@pytest.mark.parametrize(
    "forged",
    [
        USES,
        [{"name": "gpu-fraction", "request": "gpu"}],
        own(0),
        [{"name": "gpu-fraction", "request": "anything"}],
    ],
)
def test_whatever_a_container_names_of_the_claim_it_uses_its_own_request(forged):
    made = [container("train"), container("eval", resources={"claims": forged})]
    decided = webhook().decide(sharing("train=0.500,eval=0.250", "0.750", made))
    assert uses(decided, "eval") == own(1)


@pytest.mark.parametrize("first", [*own(1), *own(0), {"name": "gpu-fraction", "request": "anything"}])
def test_no_container_uses_the_claim_twice(first):
    made = [container("train"), container("eval", resources={"claims": [first, *own(0)]})]
    decided = webhook().decide(sharing("train=0.500,eval=0.250", "0.750", made))
    assert decided.code == "other-gpu-system"
    assert 'container "eval" lists claim gpu-fraction twice' in decided.message


@pytest.mark.parametrize("request_", ["gpu", "gpu-0", "gpu-7"])
def test_a_container_without_a_part_uses_no_request(request_):
    used = {"claims": [{"name": "gpu-fraction", "request": request_}]}
    made = [container("train"), container("eval"), container("proxy", resources=used)]
    decided = webhook().decide(sharing("train=0.500,eval=0.250", "0.750", made))
    assert decided.code == "several-gpu-containers"


def test_of_many_containers_few_sizes_of_cards_are_tried():
    names = [f"c{number}" for number in range(16)]
    cards = {1024 * size: size for size in range(1, 12)}
    made = [container(name) for name in names]
    decided = webhook(cards).decide(sharing(",".join(f"{name}=64Mi" for name in names), "1Gi", made))
    template = claims(decided)[0]["resourceClaimTemplateName"]
    assert sizes_of_name(template) == (1024,)
    decided = webhook(cards).decide(sharing("c0=512Mi,c1=512Mi", "1Gi", made))
    assert len(sizes_of_name(claims(decided)[0]["resourceClaimTemplateName"])) == 7


def test_without_any_known_card_memory_is_denied_and_a_fraction_waits_for_one():
    assert "offers no card yet" in webhook({}).decide(asking_memory("5Gi")).message
    assert claims(webhook({}).decide(pod())) == of(ClaimedShare(DRIVER, HALF))


QUOTA = f"{POLICY}\nquotas: {{namespaces: {{team: {{slices: 4}}}}}}"


def test_a_pod_over_its_quota_is_denied_and_a_second_review_counts_nobody_twice():
    """`decide` reviews each admitted pod again, which must neither deny nor change it."""
    found = webhook(policy=QUOTA)
    first = found.decide(pod())
    assert first.allowed
    assert "clearml-injector/reservation" in first.annotations
    copied = copy.deepcopy(first.stored)
    copied["metadata"]["name"] = "copy"
    for other in (pod(), copied):
        second = found.decide(other, uid="second")
        assert second.code == "over-quota"
        assert "4 of 4 slices are used" in second.message


def test_without_a_quota_nothing_is_reserved():
    found = webhook()
    assert "clearml-injector/reservation" not in found.decide(pod()).annotations
    assert found.ledger.reservations == 0


CUSTOM = """resources:
  mode: dra
  driver: custom
  custom: {driver: gpu.example.com, deviceClass: cards.example.com}
"""


def test_a_custom_drivers_cards_are_claimed_by_its_names_with_a_written_limit():
    found = webhook(policy=CUSTOM)
    found.ledger.cards.put_slice(offer("gpu.example.com", {24576: 1}))
    decided = found.decide(pod())
    share = ClaimedShare("gpu.example.com", HALF, (24576,), custom=ClaimNames("cards.example.com"))
    assert claims(decided) == of(share)
    assert memory_limits(decided) == {"CUDA_DEVICE_MEMORY_LIMIT": "12288m"}


def test_before_a_custom_driver_offers_cards_their_size_is_assumed():
    assumed = f"{CUSTOM}assume: {{gpusPerNode: 1, gpuMemoryMiB: 40960}}"
    share = ClaimedShare("gpu.example.com", HALF, (40960,), custom=ClaimNames("cards.example.com"))
    assert claims(webhook(policy=assumed).decide(pod())) == of(share)
    assert not webhook(policy=CUSTOM).decide(pod()).allowed


@pytest.mark.parametrize(
    ("other", "share"),
    [
        ({"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, ClaimedShare(DRIVER, HALF)),
        (
            {
                "containers": [
                    container(resources={"limits": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "5120"}})
                ]
            },
            ClaimedShare(DRIVER, Fraction.of_memory(5120, 8).on_each_of(2), (40960, 81920)),
        ),
    ],
    ids=["KAI", "HAMi"],
)
def test_amounts_in_the_words_of_other_systems_are_claimed(other, share):
    found = webhook(policy=f"{POLICY}\naliases: {{kai: true, hami: true}}")
    assert claims(found.decide(pod(fraction=None, **other))) == of(share)
