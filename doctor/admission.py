"""Checks of what decides on pods: the webhook, the second lock, and a dry run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from certs.pem import load_certificates
from certs.values import CertificateError
from doctor.finding import CERTIFICATES_ADVICE, Diagnosis
from doctor.seen import Seen, known
from kube.names import WEBHOOK

MUST_HAVE = ("injected", "unchanged")
"""Policies of the second lock that cannot be disabled individually."""
AGAINST_ANNOTATIONS = "device-annotations"
MAX_WARNINGS = 3
"""Warnings of the type checking that are shown per policy."""
MAX_PODS_NAMED = 3
_UNREACHABLE = (
    "see the webhook's pods and Service, and that networkPolicy.apiServerBlocks has the API servers"
)
_UPGRADE = "helm upgrade puts it back"
_OVER_QUOTA = re.compile(r'quota of namespace "[^"]*"(?: is 0|: )')
"""As webhook/decision.py says it."""


def webhook(seen: Seen) -> Iterator[Diagnosis]:
    """The webhook is registered, fails closed, and has a CA that the API server can trust."""
    entry = seen.webhook.value
    if entry is None:
        yield Diagnosis("failed", f"MutatingWebhookConfiguration {seen.name} is missing or empty", _UPGRADE)
        return
    if entry.failure_policy != "Fail":
        what = f"failurePolicy is {entry.failure_policy}: without the webhook pods get no share"
        yield Diagnosis("warning", what, "set webhook.failurePolicy: Fail")
    if entry.ca_bundle or entry.url is None:
        yield from _bundle(seen, entry.ca_bundle)


def _bundle(seen: Seen, pem: bytes) -> Iterator[Diagnosis]:
    if not pem:
        what = "the webhook configuration has no caBundle, so that no pod is decided"
        yield Diagnosis("failed", what, CERTIFICATES_ADVICE)
        return
    try:
        found = load_certificates(pem, "caBundle")
    except CertificateError as error:
        yield Diagnosis("failed", str(error).partition(";")[0], CERTIFICATES_ADVICE)
        return
    if all(each.not_valid_after_utc <= seen.at for each in found):
        yield Diagnosis("failed", "every CA in the caBundle has expired", CERTIFICATES_ADVICE)


def endpoints(seen: Seen) -> Iterator[Diagnosis]:
    """Some webhook takes requests."""
    entry = seen.webhook.value
    if entry is not None and entry.url is not None:
        yield Diagnosis(
            "ok", f"the webhook runs elsewhere, at {entry.url}: this check does not connect to it"
        )
    elif not seen.endpoints.value:
        look = f"kubectl --namespace {seen.namespace} get pods -l app.kubernetes.io/component=webhook"
        yield Diagnosis("failed", f"Service {seen.name}-webhook has no ready endpoint", look)


def second_lock(seen: Seen) -> Iterator[Diagnosis]:
    """The policies exist, are valid and bound, and the ServiceAccounts that they need exist."""
    found = {each.name: each for each in seen.lock_policies.value}
    if not found:
        yield Diagnosis("warning", "the second lock is off", "set secondLock.enabled: true")
        return
    for part in MUST_HAVE:
        if f"{seen.name}-{part}" not in found:
            yield Diagnosis("failed", f"ValidatingAdmissionPolicy {seen.name}-{part} is missing", _UPGRADE)
    if f"{seen.name}-{AGAINST_ANNOTATIONS}" not in found:
        what = "pods may get cards by annotations such as nvidia.cdi.k8s.io, without any limit"
        yield Diagnosis("warning", what, "set secondLock.refuseDeviceAnnotations: true")
    for each in found.values():
        for warning in each.warnings[:MAX_WARNINGS]:
            what = f"ValidatingAdmissionPolicy {each.name} does not fit this API server: {warning}"
            yield Diagnosis("failed", what, "report it, with the versions of Kubernetes and of the chart")


def bindings(seen: Seen) -> Iterator[Diagnosis]:
    """Every policy is bound, denies, and is enabled."""
    policies = {each.name for each in seen.lock_policies.value}
    found = seen.lock_bindings.value
    for name in sorted(policies - {each.policy for each in found}):
        yield Diagnosis("failed", f"ValidatingAdmissionPolicy {name} has no binding", _UPGRADE)
    for each in found:
        if each.policy not in policies:
            yield Diagnosis("failed", f"binding {each.name} names no existing policy", _UPGRADE)
        if "Deny" not in each.actions:
            yield Diagnosis("failed", f"binding {each.name} denies nothing", _UPGRADE)
    accounts = sorted({each.account for each in found if each.account is not None})
    for account in accounts:
        if account not in seen.accounts.value:
            what = f"ServiceAccount {seen.namespace}/{account} is missing: without it the second lock is open"
            yield Diagnosis("failed", what, _UPGRADE)


def uninjected(seen: Seen) -> Iterator[Diagnosis]:
    """Every pod that asked for a share was injected."""
    found = seen.uninjected.value
    if found:
        named = f"{', '.join(found[:MAX_PODS_NAMED])}{' and more' if len(found) > MAX_PODS_NAMED else ''}"
        what = f"{len(found)} labelled pods were never injected, and nothing limits them: {named}"
        yield Diagnosis("warning", what, "delete them and create them again; ledger --uninjected lists them")


def trial(seen: Seen) -> Iterator[Diagnosis]:
    """A labelled pod gets its share in a dry run."""
    if seen.trial is None:
        return
    found = seen.trial.value
    where = f"a labelled pod in namespace {found.namespace}"
    if found.closed_by is not None:
        what = f"policy {found.closed_by} allows no share in namespace {found.namespace}, so no pod is tried"
        yield Diagnosis("ok", what, "try another namespace by --try-namespace")
    elif found.refusal is not None:
        yield _refused(seen, where, found.refusal)
    elif found.injected is not None:
        yield Diagnosis("ok", f"{where} is injected by policy {found.injected}")
    elif found.no_share is not None:
        yield Diagnosis("ok", f"{where} gets no share, as {found.no_share} says")
    else:
        entry = known(seen.webhook, None)
        is_open = entry is not None and entry.failure_policy != "Fail"
        hidden = ", or it failed, which failurePolicy hides" if is_open else ""
        advice = (
            f"the webhook does not serve the namespace (webhook.namespaceSelector){hidden}; try another by"
            " --try-namespace"
        )
        yield Diagnosis("warning", f"{where} is created unchanged, without a share", advice)


def _refused(seen: Seen, where: str, message: str) -> Diagnosis:
    if f'failed calling webhook "{WEBHOOK}"' in message:
        is_trust = any(word in message for word in ("x509", "certificate", "tls:"))
        advice = CERTIFICATES_ADVICE if is_trust else _UNREACHABLE
        return Diagnosis("failed", f"{where} cannot be created: {message}", advice)
    if f'"{WEBHOOK}"' in message and _OVER_QUOTA.search(message):
        return Diagnosis("ok", f"{where} is denied by its quota, as the policies say: {message}")
    is_ours = f'"{WEBHOOK}"' in message or f"ValidatingAdmissionPolicy '{seen.name}-" in message
    if is_ours:
        return Diagnosis(
            "failed", f"{where} is denied: {message}", "docs/reference/reasons.md explains each denial"
        )
    advice = "it is not the injector that refuses it; try another namespace by --try-namespace"
    return Diagnosis("warning", f"{where} is refused: {message}", advice)
