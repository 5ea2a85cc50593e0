"""Mode dra: what becomes of a pod; every admitted pod is reviewed again, which changes nothing."""

import pytest

from kube.dra import DRIVER, NVIDIA_DRIVER
from modes.claim import ClaimedShare, template_name
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from tests.webhook.support import container, pod, policies
from tests.webhook.support.gpu_pods import asking_memory, memory_limits, on_gpus, sharing, webhook_of

POLICY = "resources: {mode: dra}\nmemory: {allowed: true}"
HALF = Fraction(4, 8)
USES = [{"name": "gpu-fraction"}]


def webhook(cards=None, policy=POLICY):
    found = webhook_of(policy_set=policies(policy))
    for driver in (DRIVER, NVIDIA_DRIVER):
        found.ledger.cards.put(driver, driver, {40960: 1, 81920: 1} if cards is None else cards)
    return found


def claims(decided):
    return decided.spec["resourceClaims"]


def of(share):
    return [{"name": "gpu-fraction", "resourceClaimTemplateName": template_name(share)}]


def test_a_claim_replaces_what_the_pod_requests():
    whole = container(resources={"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}})
    decided = webhook().decide(pod(containers=[whole]))
    assert decided.allowed
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF, (40960, 81920)))
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


def test_requested_memory_is_claimed_as_it_is():
    decided = webhook().decide(asking_memory("5Gi"))
    assert claims(decided) == of(ClaimedShare(DRIVER, Fraction.of_memory(5120, 8)))
    assert "clearml-injector/slices" not in decided.annotations


def test_several_gpus_and_kinds_are_part_of_the_claim():
    decided = webhook().decide(on_gpus("2"))
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF.on_each_of(2), (40960, 81920)))
    kinds = {"clearml-injector/gpu-model": "A100-80", "clearml-injector/min-gpu-memory": "60Gi"}
    decided = webhook().decide(pod(metadata={"annotations": kinds}))
    share = ClaimedShare(DRIVER, HALF, (81920,), GpuKinds(("A100-80",), 61440))
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
    assert claims(decided) == [nic, *of(ClaimedShare(DRIVER, HALF, (40960, 81920)))]
    assert decided.container()["resources"]["claims"] == [{"name": nic["name"]}, *USES]


def test_with_nvidias_driver_the_limit_is_of_the_one_size_in_the_claim():
    policy = "resources: {mode: dra, driver: gpu.nvidia.com}"
    decided = webhook({81559: 2, 40960: 1}, policy).decide(pod())
    assert claims(decided) == of(ClaimedShare(NVIDIA_DRIVER, HALF, (81559,)))
    assert decided.annotations["clearml-injector/memory-mib"] == "40779"
    assert memory_limits(decided) == {"CUDA_DEVICE_MEMORY_LIMIT": "40779m"}


def test_a_template_of_another_share_is_replaced():
    forged = of(ClaimedShare(DRIVER, Fraction(7, 8), (81920,)))
    decided = webhook().decide(pod(resourceClaims=forged))
    assert claims(decided) == of(ClaimedShare(DRIVER, HALF, (40960, 81920)))


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
    ours = of(ClaimedShare(DRIVER, HALF, (81920,)))
    assert webhook().decide(pod(resourceClaims=ours + ours)).code == "other-gpu-system"


def test_no_sidecar_uses_the_claim():
    sidecar = container("sidecar", resources={"claims": USES})
    note = {"annotations": {"clearml-injector/container": "train"}}
    decided = webhook().decide(pod(containers=[container(), sidecar], metadata=note))
    assert decided.code == "several-gpu-containers"


def test_several_containers_cannot_share_a_claim_yet():
    decided = webhook().decide(sharing("train=0.250,eval=0.250", "0.500"))
    assert decided.code == "containers-not-allowed"
    assert "one claim, for one container" in decided.message


def test_without_any_known_card_a_fraction_is_denied():
    assert "offers no card yet" in webhook({}).decide(pod()).message
