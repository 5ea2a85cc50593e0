"""The doctor on CRDs, controller, policies and certificates."""

from datetime import timedelta

import pytest

from certs.authority import make_authority
from certs.leaf import LEAF_LIFETIME
from certs.observation import Stored, observe
from doctor.seen import Figures, StoredPolicies, WebhookEntry
from tests.doctor.support import MADE, NOW, leader, lease, lines, observed, served

PODS = " -- see the pods: kubectl --namespace gpu-fraction-injector get pods"
ELSEWHERE = WebhookEntry("Fail", b"", "https://webhook.example.com/mutate")
IN_FORCE = "policies new are in force everywhere (controllers: 1, webhook"
FOREIGN = make_authority(NOW).certificate_pem
CARDS = leader(figures=Figures(cards=3))
OF_SLICES = StoredPolicies("new", of_slices=("default", "team"))


def serving(*pods):
    return {"processes": pods}


def counted(**figures):
    return serving(leader(figures=Figures(**figures) if figures else None))


def ending(**after):
    return serving(served(certificate_ends=(NOW + timedelta(**after)).timestamp()))


FINDINGS = {
    "a CRD is not served": (
        *("crds", {"served": frozenset({"gpuledgers"})}, "failed"),
        "the API server does not serve gpunodes of clearml-injector.io/v1alpha1 -- run helm upgrade",
    ),
    "no Lease": ("controller", {"lease": None}, "failed", f"-controller does not exist{PODS}"),
    "a free Lease": ("controller", {"lease": lease(holder="")}, "failed", f"no controller leads{PODS}"),
    "a Lease that was never renewed": ("controller", {"lease": lease(ago=None)}, "failed", f"leads{PODS}"),
    "a Lease of 5 minutes ago": (
        *("controller", {"lease": lease(ago=300)}, "failed"),
        f"the leading controller has not renewed its Lease for 300 s{PODS}",
    ),
    "a Lease from the future": (
        *("controller", {"lease": lease(ago=-300)}, "warning"),
        "the leading controller renewed its Lease 300 s in the future -- set the clocks",
    ),
    "policies in force": (
        *("policies", serving(served(since=NOW.timestamp()), leader(since=NOW.timestamp() - 9)), "ok"),
        f"{IN_FORCE}s: 1) since 2026-11-23T12:00:00Z",
    ),
    "a webhook outside of the cluster": (
        *("policies", {**serving(leader()), "webhook": ELSEWHERE}, "ok"),
        f"{IN_FORCE}: outside of the cluster, not asked)",
    ),
    "older policies": (
        *("policies", serving(served("old")), "failed"),
        "pod webhook-a does not serve the policies: it serves old -- ",
    ),
    "no answer": (
        "policies",
        serving(served(None, problem="no answer")),
        "failed",
        "policies: no answer -- ",
    ),
    "no webhook": ("policies", serving(leader()), "failed", "no webhook serves them -- "),
    "no leader": ("slices", counted(), "skipped", "no leading controller answers, which counts slices"),
    "free slices and what waits": (
        *("slices", counted(gpus=35, slices=280, free=19, waiting=12), "ok"),
        "19 of 280 slices are free for new pods, on 35 GPUs; pods wait for 12 slices",
    ),
    "nothing waits": ("slices", counted(gpus=1, slices=8), "ok", "on 1 GPUs; no pod waits for slices"),
    "no slices": ("slices", counted(gpus=0), "warning", "no node offers slices -- install the agent: docs/"),
    "cards": (
        "slices",
        serving(CARDS),
        "ok",
        "DRA drivers offer 3 cards to claims, and no node offers slices",
    ),
    "cards where pods get slices": (
        *("slices", {**serving(CARDS), "policies": OF_SLICES}, "warning"),
        "no node offers slices, as policy default, team needs -- ",
    ),
    "61 days": (
        "served-certificates",
        ending(days=61, hours=1),
        "ok",
        "first served certificate expires in 61 d",
    ),
    "6 days": ("served-certificates", ending(days=6, hours=1), "warning", "of webhook-a expires in 6 days"),
    "expired": ("served-certificates", ending(), "failed", "the certificate of webhook-a has expired"),
    "no certificate": (
        *("certificates", {"certificates": observe(Stored(None, None, None), {}, ())}, "failed"),
        "Secret fraction-injector-tls holds no valid certificate",
    ),
    "a leaf of another CA": (
        *("certificates", {"certificates": observed(bundle=FOREIGN)}, "failed"),
        "no CA in the caBundle signed the leaf: API servers refuse every labelled pod with a 500 -- ",
    ),
    "a leaf of one of two CAs": (
        *("certificates", {"certificates": observed(bundle=FOREIGN + MADE.certificate_pem)}, "ok"),
        "certificates: the leaf expires in",
    ),
}


@pytest.mark.parametrize(("check", "changed", "level", "what"), FINDINGS.values(), ids=FINDINGS)
def test_components_are_judged(check, changed, level, what):
    [(seen_level, text)] = lines(check, **changed)
    assert (seen_level, what in text) == (level, True), text


@pytest.mark.parametrize(
    ("ago", "level", "what"),
    [
        (LEAF_LIFETIME - timedelta(days=3), "warning", "expires in"),
        (20 * LEAF_LIFETIME, "failed", "has expired"),
        (
            -timedelta(hours=3),
            "failed",
            "the leaf is not valid before 2026-11-23T14:00:00Z -- compare the clocks",
        ),
    ],
)
def test_certificates_that_nobody_renews_or_that_are_not_valid_yet(ago, level, what):
    found_level, text = lines("certificates", certificates=observed(NOW - ago))[0]
    assert (found_level, what in text) == (level, True)
