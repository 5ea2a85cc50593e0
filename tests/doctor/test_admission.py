"""The doctor on the webhook's registration, the second lock and the pod that is tried."""

from datetime import timedelta

import pytest

from certs.authority import make_authority
from doctor.seen import Trial, WebhookEntry
from tests.doctor.support import LOCK, MADE, NOW, binding, lines, policy

OLD = make_authority(NOW - timedelta(days=20_000)).certificate_pem
LOST = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
ELSEWHERE = WebhookEntry("Fail", b"", "https://webhook.example")
OPEN = WebhookEntry("Ignore", MADE.certificate_pem)
BOUND = tuple(map(binding, LOCK))
AUDITS = binding(LOCK[0], actions=["Audit"])
UNFIT = policy("unchanged", "undefined field 'spec.new'")
LOCK_NAME = "ValidatingAdmissionPolicy fraction-injector"


def entry(pem):
    return {"webhook": WebhookEntry("Fail", pem)}


FINDINGS = {
    "no webhook": ("webhook", {"webhook": None}, "failed", "fraction-injector is missing or empty -- "),
    "no caBundle": ("webhook", entry(b""), "failed", "the webhook configuration has no caBundle"),
    "no certificate": ("webhook", entry(b"nonsense"), "failed", "caBundle: holds no certificate"),
    "a broken one": ("webhook", entry(LOST), "failed", "caBundle: a certificate in it cannot be read"),
    "an expired CA": ("webhook", entry(OLD), "failed", "every CA in the caBundle has expired -- "),
    "an expired CA beside a good one": (
        "webhook",
        entry(OLD + MADE.certificate_pem),
        "ok",
        "is registered with",
    ),
    "a webhook that fails open": ("webhook", {"webhook": OPEN}, "warning", "failurePolicy is Ignore"),
    "a webhook elsewhere needs no bundle": ("webhook", {"webhook": ELSEWHERE}, "ok", "registered"),
    "nor endpoints": ("endpoints", {"webhook": ELSEWHERE, "endpoints": ()}, "ok", "https://webhook.example"),
    "no endpoint": (
        "endpoints",
        {"endpoints": ()},
        "failed",
        "fraction-injector-webhook has no ready endpoint -- ",
    ),
    "no second lock": ("second-lock", {"lock_policies": ()}, "warning", "the second lock is off -- "),
    "a part is missing": (
        *("second-lock", {"lock_policies": tuple(map(policy, LOCK[:2]))}),
        *("failed", f"{LOCK_NAME}-unchanged is missing -- "),
    ),
    "devices by annotations": (
        *("second-lock", {"lock_policies": tuple(map(policy, LOCK[1:]))}),
        *("warning", "pods may get cards by annotations"),
    ),
    "a policy that does not fit": (
        *("second-lock", {"lock_policies": (*map(policy, LOCK[:2]), UNFIT)}),
        *("failed", f"{LOCK_NAME}-unchanged does not fit this API server: undefined field 'spec.new'"),
    ),
    "no binding": (
        *("bindings", {"lock_bindings": BOUND[1:]}),
        *("failed", f"{LOCK_NAME}-device-annotations has no binding"),
    ),
    "a binding of nothing": (
        *("bindings", {"lock_bindings": (*BOUND, binding("gone"))}),
        *("failed", "binding fraction-injector-gone names no existing policy"),
    ),
    "a binding that audits": (
        *("bindings", {"lock_bindings": (*BOUND[1:], AUDITS)}),
        *("failed", "binding fraction-injector-device-annotations denies nothing"),
    ),
    "no account of the lock": (
        *("bindings", {"accounts": frozenset()}),
        *("failed", "fraction-injector-second-lock is missing: without it the second lock is open"),
    ),
    "labelled pods that were never injected": (
        *("uninjected", {"uninjected": ("a/1", "a/2", "a/3", "a/4")}),
        *(
            "warning",
            "4 labelled pods were never injected, and nothing limits them: a/1, a/2, a/3 and more -- ",
        ),
    ),
    "a namespace that a policy closes": (
        *("trial", {"trial": Trial("team", closed_by="shut")}),
        *("ok", "policy shut allows no share in namespace team, so no pod is tried -- try another"),
    ),
    "a pod that is unchanged where failures are hidden": (
        *("trial", {"trial": Trial("team"), "webhook": OPEN}),
        *("warning", "or it failed, which failurePolicy hides"),
    ),
}


@pytest.mark.parametrize(("check", "changed", "level", "what"), FINDINGS.values(), ids=FINDINGS)
def test_what_decides_on_pods_is_judged(check, changed, level, what):
    [(seen_level, text)] = lines(check, **changed)
    assert (seen_level, what in text) == (level, True), text


WEBHOOK = '"fractions.clearml-injector.io"'
DENIED = f"the API server answered 403: admission webhook {WEBHOOK} denied the request: no"
FAILED = f"the API server answered 500: Internal error occurred: failed calling webhook {WEBHOOK}: "
LOCKED = "the API server answered 422: ValidatingAdmissionPolicy 'fraction-injector-injected' denied request"
OTHERS = 'the API server answered 403: pods "x" is forbidden: exceeded quota: compute'
QUOTA = f'{DENIED}: quota of namespace "team" is 0, which allows no labelled pods'
SIDECAR = FAILED.replace(WEBHOOK, '"sidecar.example.com"')


@pytest.mark.parametrize(
    ("told", "level", "what", "advice"),
    [
        ({"injected": "default@1"}, "ok", "is injected by policy default@1", ""),
        ({"no_share": "services"}, "ok", "gets no share, as services says", ""),
        ({"refusal": DENIED}, "failed", f"is denied: {DENIED}", "reasons.md"),
        ({"refusal": LOCKED}, "failed", f"is denied: {LOCKED}", "reasons.md"),
        (
            {"refusal": f"{FAILED}tls: x509: unknown"},
            "failed",
            f"cannot be created: {FAILED}",
            "certs status",
        ),
        ({"refusal": f"{FAILED}refused"}, "failed", f"cannot be created: {FAILED}", "apiServerBlocks"),
        ({"refusal": SIDECAR}, "warning", "is refused: the API server answered 500", "not the injector"),
        ({"refusal": OTHERS}, "warning", "is refused: the API server answered 403", "not the injector"),
        ({"refusal": QUOTA}, "ok", "is denied by its quota, as the policies say: ", ""),
        ({}, "warning", "is created unchanged, without a share", "webhook.namespaceSelector"),
    ],
)
def test_the_pod_that_is_tried_shows_what_becomes_of_others(told, level, what, advice):
    [(seen_level, text)] = lines("trial", trial=Trial("team", **told))
    assert (seen_level, advice in text.partition(" -- ")[2]) == (level, True)
    assert text.startswith(f"a labelled pod in namespace team {what}")
