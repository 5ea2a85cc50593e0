"""fraction-injector why for pods of mode dra: what their claim asks for, and which cards have room."""

import json

import pytest

from cluster.kube_client import ApiError
from kube.dra import CLAIM_NAME, DRIVER
from kube.names import GPU_NODES_PATH, RESOURCE_CLAIMS_PATH, RESOURCE_SLICES_PATH
from modes.claim import ClaimedShare, template_name, template_spec
from modes.fraction import Fraction
from tests.cli.commands.why_api import NAMESPACE, ago, event, waiting
from tests.controller.watch.test_card_claims import claim, result
from tests.controller.watch.test_claim_cards import gpu, resource_slice

SHARE = ClaimedShare(DRIVER, Fraction(4, 8))
TEMPLATE, SPEC = template_name(SHARE), template_spec(SHARE)["spec"]
DRA = "/apis/resource.k8s.io/v1/namespaces/team"
CLAIM, TEMPLATE_PATH = f"{DRA}/resourceclaims/train-x", f"{DRA}/resourceclaimtemplates/{TEMPLATE}"
SLICES = f"{RESOURCE_SLICES_PATH}?spec.driver={DRIVER}"
POD = f"{NAMESPACE}/pods/train"
SAYS = "0/2 nodes are available: cannot allocate all claims."


def claiming(name="train-x", template=TEMPLATE, **annotations):
    """A pod of mode dra, with or without the claim that Kubernetes makes."""
    pod = waiting()
    notes = pod["metadata"]["annotations"]
    pod["metadata"]["annotations"] = {"clearml-injector/injected": notes["clearml-injector/injected"]}
    pod["metadata"]["annotations"] |= annotations
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": CLAIM_NAME}]}
    pod["spec"]["resourceClaims"] = [{"name": CLAIM_NAME, "resourceClaimTemplateName": template}]
    if name is not None:
        pod["status"]["resourceClaimStatuses"] = [{"name": CLAIM_NAME, "resourceClaimName": name}]
        pod["status"]["conditions"][0]["message"] = SAYS
    else:
        del pod["status"]["conditions"]
    return pod


def card(device, mib, driver=DRIVER, **more):
    found = gpu(f"GPU-{device}", productName="NVIDIA A100-SXM4-80GB")
    if driver == DRIVER:
        found["attributes"]["memoryMiB"] = {"int": mib}
        capacity = {"share": {"value": "1M"}}
    else:
        capacity = {"memory": {"value": f"{mib}Mi"}}
    return found | {"name": device, "capacity": capacity, "allowMultipleAllocations": True} | more


def slices(*items):
    return {"items": list(items)}


LOST = [{"key": f"{DRIVER}/xid", "value": "79", "effect": "NoSchedule"}]
OFFERED = slices(
    resource_slice("a", card("gpu-0", 40960), card("gpu-1", 81920), node="a", driver=DRIVER),
    resource_slice("b", card("gpu-0", 81920), card("gpu-1", 81920, taints=LOST), node="b", driver=DRIVER),
)


def holding(device, pool, share):
    return result(device, driver=DRIVER, pool=pool, request="gpu", consumedCapacity={"share": share})


WAITS = claim(name="train-x") | {"spec": SPEC}
HELD = slices(
    WAITS,
    claim(holding("gpu-0", "a", "750k"), name="one"),
    claim(holding("gpu-1", "a", "625k"), name="two"),
    claim(holding("gpu-0", "b", "1M"), name="three"),
)
KNOWN = {POD: claiming(), CLAIM: WAITS, SLICES: OFFERED, RESOURCE_CLAIMS_PATH: HELD}


def test_who_may_read_all_learns_which_cards_are_there_and_how_much_is_free(ask):
    ended = ask({**KNOWN, POD: claiming()})  # made now: its age is read
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        'Pod team/train requested clearml-injector/fraction "0.500". Policy "default" gives it a claim of'
        f" 0.5 of a card, offered by driver {DRIVER}. It has waited for 10 minutes and has no node yet. Cards"
        " that it accepts: 4, 3 of which are usable; none has enough room, the most free is 30720 of 81920"
        f" MiB on a. Left out: gpu-1 of b (taint {DRIVER}/xid=79)."
        f" It starts when pods that hold parts of these cards end. The scheduler reports: {SAYS}\n"
    )


def test_the_claim_is_there_for_scripts(ask):
    [found] = json.loads(ask(KNOWN, "-o", "json").stdout)
    said = found["claim"]
    known = {"state": "waiting", "driver": DRIVER, "template": TEMPLATE, "name": "train-x"}
    asked = {"memoryMiB": 0, "share": 500_000, "shares": [], "cardMiB": None, "count": 1}
    assert said.items() >= {**known, "asked": asked}.items()
    assert (said["room"]["cards"], said["room"]["usable"], said["room"]["withRoom"]) == (4, 3, 0)
    assert said["room"]["leftOut"][0]["device"] == "gpu-1"
    assert json.loads(ask({POD: waiting()}, "-o", "json").stdout)[0]["claim"] is None


@pytest.mark.parametrize("error", [ApiError(403, "forbidden"), ApiError(404, "not served")])
def test_what_cannot_be_read_is_said_once(ask, error):
    without_slices = ask({**KNOWN, SLICES: error})
    assert "It waits for room on a card." in without_slices.stdout
    assert without_slices.stderr == f"Not read: ResourceSlices, which show the cards: {error}\n"
    without_claims = ask({**KNOWN, RESOURCE_CLAIMS_PATH: error})
    assert "Cards that it accepts: 4, 3 of which are usable." in without_claims.stdout
    assert without_claims.stderr.startswith("Not read: ResourceClaims of all namespaces, which show what is")


def test_a_template_that_is_missing(ask):
    reported = event(
        "Pod", "train", "FailedResourceClaimCreation", "PodResourceClaim gpu-fraction: not found"
    )
    said = ask(
        {
            POD: claiming(None),
            TEMPLATE_PATH: ApiError(404, "gone"),
            f"{NAMESPACE}/events?involvedObject.name=train": {"items": [reported]},
        }
    ).stdout
    assert f"Its ResourceClaimTemplate {TEMPLATE} does not exist, so Kubernetes cannot create" in said
    assert said.endswith("Kubernetes reports: PodResourceClaim gpu-fraction: not found.\n")


def test_a_pod_that_runs_names_its_card_and_what_it_uses(ask):
    pod = claiming()
    pod["spec"]["nodeName"], pod["status"]["phase"] = "a", "Running"
    bound = {POD: pod, CLAIM: claim(holding("gpu-1", "a", "500k"), name="train-x") | {"spec": SPEC}}
    ended = ask(bound)
    assert (ended.stdout.endswith("It runs on node a with 0.5 of gpu-1.\n"), ended.stderr) == (True, "")
    used = {"memoryMiB": 40960, "usedMiB": 2100, "peakMiB": 8000, "p95MiB": 7800, "since": ago(9000)}
    container = {"namespace": "team", "pod": "train", "container": "a", "gpu": 1, **used}
    usage = {"count": 1, "containers": [container]}
    report = {"metadata": {"name": "a"}, "status": {"gpus": [], "usage": usage, "offer": "dra"}}
    said = ask({**bound, f"{GPU_NODES_PATH}/a": report}).stdout
    assert said.endswith("0.5 of gpu-1. Of GPU 1 it uses 2100 of 40960 MiB (peak 8000).\n")


def test_hostile_texts_in_a_claim_do_not_reach_the_terminal(ask):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "\x1b[31m" * 5000}}]}}
    ended = ask({**KNOWN, CLAIM: claim(name="train-x") | {"spec": spec}})
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout
    assert len(ended.stdout) < 2000


def test_a_claim_that_cannot_be_read(ask):
    for wrong in (ApiError(403, "forbidden"), {"metadata": {"name": "c"}, "spec": {"devices": 5}}):
        ended = ask({**KNOWN, CLAIM: wrong})
        assert f"gives it a claim by template {TEMPLATE}. " in ended.stdout
        assert "Its ResourceClaim could not be read" in ended.stdout
        assert ended.stderr.startswith("Not read: the pod's ResourceClaim: ")
