"""The doctor on the webhook's registration, the second lock and the pod that is tried."""

from datetime import timedelta

import pytest

from certs.authority import make_authority
from doctor.seen import Trial, WebhookEntry
from tests.doctor.support import LOCK, MADE, NOW, binding, lines, policy

LOCK_BINDINGS = tuple(map(binding, LOCK))
OLD = make_authority(NOW - timedelta(days=20_000)).certificate_pem
LOST = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("entry", "level", "what"),
    [
        (None, "failed", "MutatingWebhookConfiguration fraction-injector is missing or empty -- "),
        (WebhookEntry("Fail", b""), "failed", "the webhook configuration has no caBundle"),
        (WebhookEntry("Fail", b"nonsense"), "failed", "caBundle: holds no certificate"),
        (WebhookEntry("Fail", LOST.encode()), "failed", "caBundle: a certificate in it cannot be read"),
        (WebhookEntry("Fail", OLD), "failed", "every CA in the caBundle has expired -- "),
        (WebhookEntry("Fail", OLD + MADE.certificate_pem), "ok", "the webhook is registered with a CA"),
        (WebhookEntry("Ignore", MADE.certificate_pem), "warning", "failurePolicy is Ignore"),
    ],
)
def test_a_webhook_is_registered_so_that_the_api_server_trusts_it_and_fails_closed(entry, level, what):
    [(seen_level, text)] = lines("webhook", webhook=entry)
    assert (seen_level, text.startswith(what)) == (level, True), text


def test_a_webhook_elsewhere_has_no_endpoints_and_needs_no_bundle():
    elsewhere = WebhookEntry("Fail", b"", "https://webhook.example")
    assert lines("webhook", webhook=elsewhere)[0][0] == "ok"
    [(level, text)] = lines("endpoints", webhook=elsewhere, endpoints=())
    assert (level, "https://webhook.example" in text) == ("ok", True)


@pytest.mark.parametrize(
    ("found", "level", "what"),
    [
        ((), "warning", "the second lock is off"),
        (map(policy, LOCK[:2]), "failed", "fraction-injector-unchanged is missing"),
        (map(policy, LOCK[1:]), "warning", "pods may get cards by annotations"),
        (
            (*map(policy, LOCK[:2]), policy("unchanged", "undefined field 'spec.new'")),
            "failed",
            "fraction-injector-unchanged does not fit this API server: undefined field 'spec.new'",
        ),
    ],
)
def test_a_part_of_the_second_lock_that_is_missing_or_does_not_fit_is_named(found, level, what):
    [(seen_level, text)] = lines("second-lock", lock_policies=tuple(found))
    assert (seen_level, what in text, " -- " in text) == (level, True, True)


AUDITS = binding(LOCK[0], actions=["Audit"])


@pytest.mark.parametrize(
    ("bindings", "what"),
    [
        (LOCK_BINDINGS[1:], "ValidatingAdmissionPolicy fraction-injector-device-annotations has no binding"),
        ((*LOCK_BINDINGS, binding("gone")), "binding fraction-injector-gone names no existing policy"),
        ((*LOCK_BINDINGS[1:], AUDITS), "binding fraction-injector-device-annotations denies nothing"),
    ],
)
def test_policies_and_bindings_that_do_not_meet_fail(bindings, what):
    [(level, text)] = lines("bindings", lock_bindings=bindings)
    assert (level, text.partition(" -- ")[0]) == ("failed", what)


def test_a_lock_without_what_it_holds_by_is_open():
    [(level, text)] = lines("bindings", accounts=frozenset())
    assert level == "failed"
    assert "fraction-injector-second-lock is missing: without it the second lock is open" in text


def test_labelled_pods_that_were_never_injected_are_counted_and_the_first_named():
    what = "4 labelled pods were never injected, and nothing limits them: a/1, a/2, a/3 and more"
    [(level, text)] = lines("uninjected", uninjected=("a/1", "a/2", "a/3", "a/4"))
    assert (level, text.partition(" -- ")[0]) == ("warning", what)
    assert "ledger --uninjected" in text


DENIED = (
    'the API server answered 403: admission webhook "fractions.clearml-injector.io" denied the request: no'
)
FAILED = (
    "the API server answered 500: Internal error occurred: failed calling webhook"
    ' "fractions.clearml-injector.io": failed to call webhook: Post "https://fraction-injector-webhook": '
)
LOCKED = "the API server answered 422: ValidatingAdmissionPolicy 'fraction-injector-injected' denied request"
OTHERS = 'the API server answered 403: pods "x" is forbidden: exceeded quota: compute'


@pytest.mark.parametrize(
    ("found", "level", "what", "advice"),
    [
        (Trial("team", injected="default@1"), "ok", "is injected by policy default@1", ""),
        (Trial("team", no_share="services"), "ok", "gets no share, as services says", ""),
        (Trial("team", refusal=DENIED), "failed", "is denied: the API server answered 403", "reasons.md"),
        (Trial("team", refusal=LOCKED), "failed", "is denied: the API server answered 422", "reasons.md"),
        (
            Trial("team", refusal=f"{FAILED}tls: failed to verify certificate: x509: unknown authority"),
            "failed",
            "cannot be created: the API server answered 500: Internal error",
            "certs status",
        ),
        (
            Trial("team", refusal=f"{FAILED}dial tcp 10.0.0.1:443: connect: connection refused"),
            "failed",
            "cannot be created: the API server answered 500: Internal error",
            "networkPolicy.apiServerBlocks",
        ),
        (
            Trial("team", refusal=FAILED.replace("fractions.clearml-injector.io", "sidecar.example.com")),
            "warning",
            "is refused: the API server answered 500",
            "not the injector",
        ),
        (
            Trial("team", refusal=OTHERS),
            "warning",
            "is refused: the API server answered 403",
            "not the injector",
        ),
        (
            Trial("team", refusal=f'{DENIED}: quota of namespace "team" is 0, which allows no labelled pods'),
            "ok",
            "is denied by its quota, as the policies say: ",
            "",
        ),
        (Trial("team"), "warning", "is created unchanged, without a share", "webhook.namespaceSelector"),
    ],
)
def test_the_pod_that_is_tried_shows_what_becomes_of_others(found, level, what, advice):
    [(seen_level, text)] = lines("trial", trial=found)
    assert (seen_level, advice in text.partition(" -- ")[2]) == (level, True)
    assert text.startswith(f"a labelled pod in namespace team {what}")


def test_a_namespace_that_a_policy_closes_is_no_failure():
    what = "policy shut allows no share in namespace team, so no pod is tried"
    [line] = lines("trial", trial=Trial("team", closed_by="shut"))
    assert line == ("ok", f"{what} -- try another namespace by --try-namespace")


def test_a_pod_that_is_unchanged_where_failures_are_hidden_says_so():
    [(_, text)] = lines("trial", trial=Trial("team"), webhook=WebhookEntry("Ignore", MADE.certificate_pem))
    assert "or it failed, which failurePolicy hides" in text


def test_a_service_without_endpoints_fails():
    [(level, text)] = lines("endpoints", endpoints=())
    assert level == "failed"
    assert text.startswith("Service fraction-injector-webhook has no ready endpoint -- kubectl")
