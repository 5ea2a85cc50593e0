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
    assert decided.spec["resourceClaims"] == [OF_TEMPLATE]
    assert decided.container()["resources"]["claims"] == [{"name": NIC}]
    assert decided.container()["resources"]["limits"] == {"nvidia.com/gpu-0": "4"}


NO_POLICY = (
    "resourceClaims may be GPUs and cannot be combined with clearml-injector/fraction: remove them,"
    " or ask the admin to list their DeviceClass in allow.deviceClasses"
)
NAMES = "rename the claim to not-a-gpu-dpu-example-com or not-a-gpu-rdma-example-com"
OTHER_NAME = f" may be a GPU: if the policy allows its DeviceClass, {NAMES}"
EXISTING = f'resource claim "{NIC}" must come from a template: use resourceClaimTemplateName'


@pytest.mark.parametrize(
    ("claims", "policy_set", "message"),
    [
        ([OF_TEMPLATE], None, NO_POLICY),
        *(
            ([OF_TEMPLATE, {**OF_TEMPLATE, "name": name}], ALLOWS, OTHER_NAME)
            for name in ("nic", "not-a-gpu-gpu-nvidia-com", "not-a-gpu-", NIC.upper(), f"{NIC}-2")
        ),
        # What is there already holds what nobody checked.
        ([{"name": NIC, "resourceClaimName": "mine"}], ALLOWS, EXISTING),
        ([{**OF_TEMPLATE, "resourceClaimName": "x"}], ALLOWS, EXISTING),
        ([{"name": NIC}], ALLOWS, EXISTING),
    ],
)
def test_a_claim_that_may_be_a_gpu_is_denied_with_what_to_do(claims, policy_set, message):
    decided = decide(claiming(*claims), policy_set)
    assert decided.code == "other-gpu-system"
    assert decided.message.endswith(message)
    assert len(decided.message) <= 200


def test_a_class_that_is_named_as_a_resource_needs_no_claim():
    decided = decide(pod(containers=[container(limits={EXTENDED: "1"})]), ALLOWS)
    assert decided.container()["resources"]["limits"] == {EXTENDED: "1", "nvidia.com/gpu-0": "4"}
