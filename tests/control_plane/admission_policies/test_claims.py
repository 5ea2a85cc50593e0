"""Claims of devices that are no GPU in labelled pods: what the pod calls them is what they are of."""

import pytest

from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.admission_policies.support import refused

API = "resource.k8s.io/v1"
NIC = "not-a-gpu-rdma-example-com"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
WRONG = (
    f"claim {NIC}: its template requests another DeviceClass than its name says: name the class in the"
    " template, or rename the claim"
)

pytestmark = pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason=f"this Kubernetes serves no {API}")


def of_class(name):
    return {"name": "device", "exactly": {"deviceClassName": name}}


def one_of(*names):
    either = [{"name": name.replace(".", "-"), "deviceClassName": name} for name in names]
    return {"name": "device", "firstAvailable": either}


def template(*requests):
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": "device"}, "spec": spec}


def claim(called, *requests):
    metadata = {"generateName": "claim-", "annotations": {POD_CLAIM: called}}
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def claiming():
    pod = labelled_pod("nic", "0.125", resourceClaims=[{"name": NIC, "resourceClaimTemplateName": "device"}])
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": NIC}]}
    return pod


@pytest.fixture
def nics(lock, control_plane):
    """The namespace whose policy allows claims of NICs, empty again afterwards."""
    yield "lock-nics"
    control_plane.api.delete_all("Pod", "lock-nics")
    control_plane.api.delete("ResourceClaimTemplate", "device", "lock-nics", API)


def test_a_labelled_pod_has_its_share_and_the_claim_of_a_nic(nics, control_plane):
    control_plane.api.create(template(of_class("rdma.example.com")), nics)
    made = control_plane.api.create(claiming(), nics)
    assert made["metadata"]["annotations"]["clearml-injector/slices"] == "1"
    assert made["spec"]["resourceClaims"] == [{"name": NIC, "resourceClaimTemplateName": "device"}]

    def claims():
        found = control_plane.api.list("ResourceClaim", nics, API)
        return [each for each in found if each["metadata"]["annotations"].get(POD_CLAIM) == NIC]

    [found] = eventually(claims, "Kubernetes makes the claim")
    [request] = found["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "rdma.example.com"


def test_no_claim_of_a_gpu_is_made_under_the_name_of_a_nic(nics, control_plane):
    control_plane.api.create(template(one_of("rdma.example.com", "gpu.example.com")), nics)
    pod = control_plane.api.create(claiming(), nics)

    def messages():
        found = control_plane.api.events(nics, "nic", "FailedResourceClaimCreation")
        return [e["message"] for e in found if e["involvedObject"].get("uid") == pod["metadata"]["uid"]]

    assert WRONG in eventually(messages, "the pod has an Event")[0]
    owners = [
        each["metadata"].get("ownerReferences", [])
        for each in control_plane.api.list("ResourceClaim", nics, API)
    ]
    assert pod["metadata"]["uid"] not in [one["uid"] for each in owners for one in each]


WRONG_REQUESTS = {
    "a GPU": [of_class("gpu.example.com")],
    "a NIC and a GPU": [of_class("rdma.example.com"), {**of_class("gpu.example.com"), "name": "second"}],
    "a NIC, or else a GPU": [one_of("rdma.example.com", "gpu.example.com")],
    "a class that begins alike": [of_class("rdma.example.com.gpu")],
}


@pytest.mark.parametrize("requests", WRONG_REQUESTS.values(), ids=WRONG_REQUESTS)
def test_nobody_makes_such_a_claim_by_hand(lock, control_plane, namespace, requests):
    with refused("claims", WRONG):
        control_plane.api.create(claim(NIC, *requests), namespace)


def test_nobody_gives_a_claim_the_name_later(lock, control_plane, namespace):
    made = control_plane.api.create(claim("mine", of_class("gpu.example.com")), namespace)
    name = made["metadata"]["name"]
    with refused("claims", WRONG):
        change = {"metadata": {"annotations": {POD_CLAIM: NIC}}}
        control_plane.api.patch("ResourceClaim", name, change, namespace, API)
    control_plane.api.delete("ResourceClaim", name, namespace, API)


def test_claims_of_other_names_are_nobodys_business(lock, control_plane, namespace):
    for called in ("gpu", "not-a-gpu", "x-not-a-gpu-y"):
        made = control_plane.api.create(claim(called, of_class("gpu.example.com")), namespace, dry_run=True)
        assert made["metadata"]["annotations"][POD_CLAIM] == called


def test_a_class_that_is_asked_for_as_a_resource_needs_no_claim(nics, control_plane):
    pod = labelled_pod("nic", "0.125")
    nic = "deviceclass.resource.kubernetes.io/rdma.example.com"
    pod["spec"]["containers"][0]["resources"] = {"limits": {nic: "1"}}
    made = control_plane.api.create(pod, nics, dry_run=True)
    [task] = made["spec"]["containers"]
    own, given = sorted(task["resources"]["limits"])
    assert (own, given.startswith("nvidia.com/gpu-")) == (nic, True)
