"""Claims of devices that are no GPU, in addition to a share: by DeviceClass, where the policy allows it."""

import pytest

from tests.webhook.support import container, decide, pod, policies

NIC = "not-a-gpu-rdma-example-com"
ALLOWS = policies("allow: {deviceClasses: [rdma.example.com, dpu.example.com]}")
OF_TEMPLATE = {"name": NIC, "resourceClaimTemplateName": "anything"}
EXTENDED = "deviceclass.resource.kubernetes.io/rdma.example.com"


def claiming(*claims):
    """A pod whose container takes its first claim."""
    return pod(
        containers=[container(resources={"claims": [{"name": claims[0].get("name", "")}]})],
        resourceClaims=list(claims),
    )


def test_a_claim_that_is_called_after_an_allowed_class_stays_with_the_share():
    decided = decide(claiming(OF_TEMPLATE), ALLOWS)
    assert decided.code == "injected"
    assert decided.spec["resourceClaims"] == [OF_TEMPLATE]
    assert decided.container()["resources"]["claims"] == [{"name": NIC}]
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-0": "4"}


def test_without_the_policy_the_message_says_what_the_admin_would_write():
    decided = decide(claiming(OF_TEMPLATE))
    assert decided.code == "other-gpu-system"
    assert decided.message == (
        "resourceClaims may be GPUs and cannot be combined with clearml-injector/fraction: remove them,"
        " or ask the admin to list their DeviceClass in allow.deviceClasses"
    )


@pytest.mark.parametrize("name", ["nic", "not-a-gpu-gpu-nvidia-com", "not-a-gpu-", NIC.upper(), f"{NIC}-2"])
def test_a_claim_of_another_name_may_be_a_gpu(name):
    decided = decide(claiming(OF_TEMPLATE, {"name": name, "resourceClaimTemplateName": "anything"}), ALLOWS)
    assert decided.code == "other-gpu-system"
    assert decided.message.endswith(
        "may be a GPU: if the policy allows its DeviceClass, rename the claim to"
        " not-a-gpu-dpu-example-com or not-a-gpu-rdma-example-com"
    )
    assert len(decided.message) <= 200


@pytest.mark.parametrize(
    "claim",
    [{"name": NIC, "resourceClaimName": "mine"}, {**OF_TEMPLATE, "resourceClaimName": "x"}, {"name": NIC}],
)
def test_a_claim_that_is_there_already_holds_what_nobody_checked(claim):
    decided = decide(claiming(claim), ALLOWS)
    assert (decided.code, decided.message) == (
        "other-gpu-system",
        f'resource claim "{NIC}" must come from a template: use resourceClaimTemplateName',
    )


def test_a_class_that_is_named_as_a_resource_needs_no_claim():
    decided = decide(pod(containers=[container(limits={EXTENDED: "1"})]), ALLOWS)
    assert decided.code == "injected"
    assert decided.container()["resources"]["limits"] == {EXTENDED: "1", "nvidia.com/gpu-0": "4"}
