"""What a ResourceClaim gives to a node, and what is refused in one line."""

import pytest

from agent.dra.claim import ClaimRefusedError, read_claim
from agent.gpu import Gpu
from kube.dra import DRIVER
from tests.agent.support.dra import NODE, OTHER, UID, ApiServer, limited_to

CARDS = {"gpu-0": Gpu(0, "GPU-0", "NVIDIA A100", 40960)}


def claim_of(*granted, **more):
    """A claim with such devices, as the API server has it."""
    server = ApiServer()
    server.add_claim(*granted, **more)
    [found] = server.claims.values()
    return found


def refusal(found):
    with pytest.raises(ClaimRefusedError) as refused:
        read_claim(found, UID, NODE, CARDS)
    assert len(str(refused.value)) <= 200
    return str(refused.value)


OF_NVIDIA = {"source": "FromClass", "opaque": {"driver": "gpu.nvidia.com", "parameters": {"sharing": {}}}}


@pytest.mark.parametrize(
    ("share", "config", "mib"),
    [
        ("100k", [limited_to(1431)], 1431),
        ("100k", [limited_to(1431, "gpu")], 1431),
        ("100k", [limited_to(1431, "gpu/m40960")], 1431),
        ("100k", [limited_to(5120), limited_to(1431, "another", "gpu"), OF_NVIDIA], 1431),
        ("1M", [limited_to(1431)], 1431),
        (None, [limited_to(1431)], 1431),
        ("100k", [limited_to(5120)], 4096),
        ("100k", [limited_to(1431, "another"), limited_to(1431, "gpu/m81920")], 4096),
        ("333333", [], 13653),
        ("25", [], 1),
        # No capacity is counted, or all of it: the whole card.
        *[
            (share, config, None)
            for share in (None, "1M")
            for config in ([], [limited_to(40960)], [limited_to(2**70, "gpu")])
        ],
    ],
)
def test_a_claim_for_mib_is_limited_to_them_and_never_to_more_than_its_share(share, config, mib):
    found = claim_of({"share": share, "request": "gpu/m40960"}, config=config)
    [device] = read_claim(found, UID, NODE, CARDS).devices
    assert (device.request, device.memory_mib) == ("gpu", mib)


@pytest.mark.parametrize(
    ("claim", "granted", "why"),
    [
        ({"uid": OTHER}, {}, "another ResourceClaim has this name"),
        ({}, {"device": "gpu-7"}, "gpu-7 is not a GPU that this node offers"),
        ({}, {"share": "24"}, "less than 1 MiB"),
        ({}, {"share": "-1k"}, "cannot be read"),
        ({}, {"share": "500m"}, "cannot be read"),
        ({}, {"consumedCapacity": {"memory": "20Gi"}}, "has no share"),
        ({}, {"adminAccess": True}, "does not support adminAccess"),
        ({}, {"pool": "another-node"}, "has no device of gpu.clearml-injector.io on this node"),
        ({"config": [limited_to(1431, source="FromClass")]}, {}, "accepts configuration only from claims"),
        *[
            ({"config": [limited_to(1431), wrong]}, {}, "accepts no other configuration")
            for wrong in (
                limited_to(0),
                limited_to("1431"),
                limited_to(1431, kind="GpuConfig"),
                limited_to(1431, apiVersion="resource.nvidia.com/v1beta1"),
                limited_to(1431, "another", sharing={"strategy": "MPS"}),
                {"source": "FromClaim", "opaque": {"driver": DRIVER}},
            )
        ],
    ],
)
def test_what_the_agent_does_not_give_is_refused(claim, granted, why):
    assert why in refusal(claim_of({"share": "25k", **granted}, **claim))


def test_what_is_no_allocated_claim_of_one_pod_is_refused():
    found = claim_of({"share": "25k"})
    found["status"]["reservedFor"] *= 2
    assert "use a ResourceClaimTemplate" in refusal(found)
    found["status"]["allocation"]["devices"]["results"] = "all"
    assert "cannot be read" in refusal(found)
    found["status"] = {}
    assert "not allocated" in refusal(found)


@pytest.mark.parametrize(
    "requests",
    [
        [{"name": "gpu", "exactly": {"deviceClassName": "all.example.com"}}],
        [{"name": "gpu", "firstAvailable": [{"name": "any", "deviceClassName": DRIVER}]}],
        [{"name": "another", "exactly": {"deviceClassName": DRIVER}}],
        None,
    ],
)
def test_a_card_that_another_device_class_gave_away_is_refused(requests):
    found = claim_of({"share": "25k"})
    found["spec"]["devices"]["requests"] = requests
    assert f"gives only cards of {DRIVER}: label the pod" in refusal(found)
