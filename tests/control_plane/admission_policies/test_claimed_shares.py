"""Mode dra under the second lock: label, annotations and claim agree, and nobody else claims shares."""

import copy
import json

import pytest

from kube.dra import DRIVER, TEMPLATE_LABEL
from testbed.api import ApiError
from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.registration import asking_for_memory, labelled_pod
from tests.control_plane.admission_policies.conftest import on_gpus, sharing
from tests.control_plane.admission_policies.support import refused, unlabelled_pod
from tests.control_plane.admission_policies.test_claims import API, claim, of_class, one_of, template

IN, FORGED_IN = "lock-claimed", "forged-claimed"
SHARE = {"name": "gpu-fraction", "resourceClaimTemplateName": "gpu-fraction-4of8-m81920-0123456789abcdef"}
OF_SHARES = (
    "gpu.clearml-injector.io: claims and templates of shares are made for labelled pods alone: label the pod"
    " with clearml-injector/fraction, and remove the claim"
)
NO_RESOURCE = (
    "gpu.clearml-injector.io is for pods with the label clearml-injector/fraction: set the label and remove"
    " the resource"
)
OF_ITS_POD = (
    "gpu.clearml-injector.io: the claim of a share is for the pod that it was made for: label the pod with"
    " clearml-injector/fraction, and remove the claim"
)

pytestmark = pytest.mark.skipif(not HAS_RESOURCE_CLAIMS, reason=f"this Kubernetes serves no {API}")


def dry(control_plane, pod, namespace=IN):
    return control_plane.api.create(pod, namespace, dry_run=True)


@pytest.mark.parametrize(
    ("pod", "begins"),
    [
        (labelled_pod("half", "0.500"), "gpu-fraction-4of8-"),
        (labelled_pod("exact", "0.2"), "gpu-fraction-1of5-"),
        (labelled_pod("whole", "2.0"), "gpu-fraction-whole-x2-"),
        (on_gpus(labelled_pod("halves", "0.500"), 2), "gpu-fraction-4of8-x2-"),
        (asking_for_memory("1431Mi"), "gpu-fraction-1431mi-"),
        (sharing(labelled_pod("parts", "0.750")), "gpu-fraction-6of8-p4-p2-"),
        (sharing(asking_for_memory("6Gi"), "train=4Gi,eval=2Gi"), "gpu-fraction-6144mi-p4096-p2048-"),
    ],
)
def test_what_the_webhook_makes_of_a_pod_passes(lock, control_plane, pod, begins):
    made = dry(control_plane, pod)
    [share] = made["spec"]["resourceClaims"]
    assert share["resourceClaimTemplateName"].startswith(begins)


def another_template(name):
    def change(pod):
        pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name

    return change


def without_claim(pod):
    del pod["spec"]["resourceClaims"]
    del pod["spec"]["containers"][0]["resources"]["claims"]


def with_another_label(pod):
    pod["metadata"]["labels"]["clearml-injector/fraction"] = "0.125"


def with_a_second_user(pod):
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "second"})


def with_resource(name, container=0):
    def change(pod):
        if container:
            pod["spec"]["containers"].append({"name": "second", "image": "example.com/task:1"})
        pod["spec"]["containers"][container].setdefault("resources", {})["limits"] = {name: "1"}

    return change


def use(container, request):
    def change(pod):
        found = {each["name"]: each for each in pod["spec"]["initContainers"] + pod["spec"]["containers"]}
        claim = {"name": "gpu-fraction", **({"request": request} if request else {})}
        found[container]["resources"] = {**found[container].get("resources", {}), "claims": [claim]}

    return change


def other_parts(text):
    def change(pod):
        pod["metadata"]["annotations"]["clearml-injector/containers"] = text

    return change


@pytest.mark.parametrize(
    ("which", "change"),
    [
        ("claimed", another_template("mine")),
        ("claimed", another_template("gpu-fraction-7of8-m81920-0123456789abcdef")),
        ("claimed", another_template("gpu-fraction-4of8-x2-m81920-0123456789abcdef")),
        ("claimed", another_template("gpu-fraction-whole-0123456789abcdef")),
        ("claimed", another_template("gpu-fraction-999999mi-0123456789abcdef")),
        ("claimed", without_claim),
        ("claimed", with_another_label),
        ("claimed", with_a_second_user),
        ("claimed", with_resource("nvidia.com/mig-1g.10gb")),
        ("claimed", with_resource("nvidia.com/mig-1g.10gb", 1)),
        ("claimed", with_resource("nvidia.com/gpu-0")),
        ("claimed-parts", use("eval", "gpu-0")),
        ("claimed-parts", use("eval", "gpu-9")),
        ("claimed-parts", use("eval", "other")),
        ("claimed-parts", use("eval", None)),
        ("claimed-parts", use("warm", "gpu-1")),
        ("claimed-parts", use("warm", None)),
        ("claimed-parts", other_parts("train=0.250,eval=0.500")),
        ("claimed-parts", other_parts("eval=0.250,train=0.500")),
        ("claimed-parts", other_parts("train=0.750")),
        ("claimed-parts", another_template("gpu-fraction-6of8-p2-p4-m81920-0123456789abcdef")),
        ("claimed-parts", another_template("gpu-fraction-6of8-p5-p1-m81920-0123456789abcdef")),
        ("claimed-parts", another_template("gpu-fraction-6of8-m81920-0123456789abcdef")),
        ("claimed-parts", another_template("gpu-fraction-6144mi-p4096-p2048-0123456789abcdef")),
    ],
)
def test_a_pod_whose_parts_do_not_agree_is_refused(no_webhook, control_plane, which, change):
    pod = copy.deepcopy(no_webhook[which])
    change(pod)
    with pytest.raises(ApiError) as error:
        dry(control_plane, pod, FORGED_IN)
    assert "second-lock" in str(error.value) or "injected" in str(error.value)


def test_a_pod_of_another_mode_or_of_one_container_has_no_such_claim(no_webhook, control_plane):
    claims = {
        which: copy.deepcopy(no_webhook["claimed"]["spec"]["resourceClaims"]) for which in ("half", "claimed")
    }
    name = claims["claimed"][0]["resourceClaimTemplateName"]
    claims["claimed"][0]["resourceClaimTemplateName"] = name.replace("-4of8-", "-4of8-p4-")
    claims["late"], of_mode = claims["half"], "only in mode dra"
    of_one = "claimed", "a request for each container"
    for which, message in (("half", of_mode), ("late", of_mode), of_one):
        pod = copy.deepcopy(no_webhook[which])
        pod["spec"]["resourceClaims"] = claims[which]
        with pytest.raises(ApiError, match=message):
            dry(control_plane, pod, pod["metadata"]["namespace"])


@pytest.mark.parametrize("name", ["gpu-fraction", "other"])
def test_an_unlabelled_pod_has_no_such_claim(lock, control_plane, name):
    with pytest.raises(ApiError, match="is for pods with the label"):
        dry(control_plane, unlabelled_pod(resourceClaims=[{**SHARE, "name": name}]))


def test_a_template_does_not_become_one_of_a_share_by_a_label(lock, control_plane):
    control_plane.api.create(template(of_class("other.example.com")), IN)
    label = {"metadata": {"labels": {TEMPLATE_LABEL: "share"}}}
    try:
        with refused("claimed-shares", OF_SHARES):
            control_plane.api.patch("ResourceClaimTemplate", "device", label, IN, API)
    finally:
        control_plane.api.delete("ResourceClaimTemplate", "device", IN, API)


@pytest.mark.parametrize("requests", [[of_class(DRIVER)], [one_of("other.example.com", DRIVER)]])
def test_nobody_but_the_controller_makes_templates_and_claims_of_shares(lock, control_plane, requests):
    with refused("claimed-shares", OF_SHARES):
        control_plane.api.create(template(*requests), IN)
    named = template(of_class("other.example.com"))
    named["metadata"]["name"] = SHARE["resourceClaimTemplateName"]
    with refused("claimed-shares", OF_SHARES):
        control_plane.api.create(named, IN)
    with refused("claimed-shares", OF_SHARES):
        control_plane.api.create(claim("other", *requests), IN)
    control_plane.api.create(claim("other", of_class("other.example.com")), IN, dry_run=True)


def test_the_annotation_alone_makes_no_claim_of_a_share(lock, control_plane):
    """Kubernetes' own components may write the status of claims; who may edit a namespace may not."""
    forged = claim("gpu-fraction", of_class(DRIVER))
    control_plane.api.create(forged, IN, dry_run=True)  # as a component that may do everything
    rights = [
        ("role", "--verb=*", "--resource=resourceclaims.resource.k8s.io"),
        ("rolebinding", "--role=claimant", "--user=claimant"),
    ]
    for kind, *options in rights:
        assert control_plane.kubectl("create", kind, "claimant", f"--namespace={IN}", *options).code == 0
    ended = control_plane.kubectl(
        "create", "--as=claimant", f"--namespace={IN}", "--filename=-", stdin=json.dumps(forged)
    )
    assert OF_SHARES in ended.stderr
    control_plane.kubectl("delete", "role,rolebinding", "claimant", f"--namespace={IN}")


def test_no_amount_of_the_class_is_a_resource_of_an_unlabelled_pod(lock, control_plane):
    asks = {"limits": {f"deviceclass.resource.kubernetes.io/{DRIVER}": "1"}}
    pod = unlabelled_pod()
    pod["spec"]["containers"][0]["resources"] = asks
    with refused("unlabelled-claims", NO_RESOURCE):
        dry(control_plane, pod)
    asks["limits"] = {"deviceclass.resource.kubernetes.io/other.example.com": "1"}
    dry(control_plane, pod)


@pytest.fixture
def reserve(lock, control_plane):
    """Reserve a pod's claim of a class for pods: `reserve(class, "owner", "other")`, as Kubernetes does."""
    made = []

    def one(device_class, *names):
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "default"}  # it is there, as a pod is
        owner["uid"] = control_plane.api.get("ServiceAccount", "default", IN)["metadata"]["uid"]
        body = claim("gpu-fraction", of_class(device_class))
        body["metadata"]["ownerReferences"] = [owner]
        found = control_plane.api.create(body, IN)
        made.append(found["metadata"]["name"])
        device = {"request": "device", "driver": DRIVER, "pool": "node", "device": "gpu-0"}
        pods = [
            {"resource": "pods", "name": name, "uid": owner["uid"] if name == "owner" else f"uid-of-{name}"}
            for name in names
        ]
        status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": pods}
        path = f"/apis/{API}/namespaces/{IN}/resourceclaims/{made[-1]}/status"
        dry_run, merge = {"dryRun": "All"}, "application/merge-patch+json"
        return control_plane.api.call("PATCH", path, {"status": status}, dry_run, merge)

    yield one
    for name in made:
        control_plane.api.delete("ResourceClaim", name, IN, API)


def test_a_claim_of_a_share_is_reserved_for_the_pod_that_it_was_made_for(reserve):
    assert len(reserve(DRIVER, "owner")["status"]["reservedFor"]) == 1
    assert len(reserve("other.example.com", "owner", "other")["status"]["reservedFor"]) == 2


@pytest.mark.parametrize("pods", [["other"], ["owner", "other"]])
def test_no_other_pod_joins_a_claim_of_a_share(reserve, pods):
    with refused("joined-claims", OF_ITS_POD):
        reserve(DRIVER, *pods)
