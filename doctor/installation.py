"""Checks of the components: CRDs, controller, policies and certificates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from controller.certificates.expiry import warnings
from doctor.finding import CERTIFICATES_ADVICE, Diagnosis
from doctor.seen import Seen
from kube.names import API_VERSION

CRDS = ("gpuledgers", "gpunodes")
LATE_SECONDS = 30.0
"""Tolerance after a Lease has expired: the clock of this machine may be some seconds off."""


def crds(seen: Seen) -> Iterator[Diagnosis]:
    """Our resources are served in the version that this command reads."""
    for each in CRDS:
        if each not in seen.served.value:
            what = f"the API server does not serve {each} of {API_VERSION}"
            yield Diagnosis("failed", what, "run helm upgrade with crds.enabled: true")


def controller(seen: Seen) -> Iterator[Diagnosis]:
    """A controller holds the Lease and renews it."""
    lease, pods = seen.lease.value, f"see the pods: kubectl --namespace {seen.namespace} get pods"
    if lease is None:
        yield Diagnosis("failed", f"Lease {seen.namespace}/{seen.name}-controller does not exist", pods)
        return
    if not lease.holder or lease.renewed is None:
        yield Diagnosis("failed", "no controller leads", pods)
        return
    late = (seen.at - lease.renewed).total_seconds() - lease.seconds
    if late > LATE_SECONDS:
        what = f"the leading controller has not renewed its Lease for {late + lease.seconds:.0f} s"
        yield Diagnosis("failed", what, f"{pods}; compare the clock of this machine")
    if lease.yields is not None:
        yield Diagnosis("warning", f"the leading controller should not lead: {lease.yields}", pods)


def policies(seen: Seen) -> Iterator[Diagnosis]:
    """The policies are valid, and every process serves them."""
    found = seen.policies.value
    if found.problem is not None:
        yield Diagnosis("failed", f"the policies are broken: {found.problem}", "repair the chart's values")
        return
    for each in found.served:
        if each.digest != found.digest:
            what = f"pod {each.pod} does not serve the policies: {each.problem or f'it serves {each.digest}'}"
            yield Diagnosis("failed", what, f"kubectl --namespace {seen.namespace} logs {each.pod}")
    stale = {digest for digest in found.webhooks_by_policies or () if digest != found.digest}
    if stale:
        what = f"webhooks serve other policies than the ConfigMap's: {', '.join(sorted(stale)) or 'none'}"
        yield Diagnosis("failed", what, "fraction-injector status names them")
    has_webhook = found.webhooks_by_policies or any(each.component == "webhook" for each in found.served)
    if not has_webhook:
        yield Diagnosis(
            "failed", "no webhook serves the policies", "start one: helm upgrade, webhook.replicas"
        )


def certificates(seen: Seen) -> Iterator[Diagnosis]:
    """Leaf and CA exist and do not expire soon."""
    found = seen.certificates.value
    leaf, authority = found.tls.leaf, found.authorities.current
    if leaf is None:
        what = f"Secret {seen.name}-tls holds no valid certificate of a known CA"
        yield Diagnosis("failed", what, CERTIFICATES_ADVICE)
        return
    ends = [("leaf", leaf.not_after), *([("CA", authority.not_after)] if authority is not None else [])]
    over = [what for what, end in ends if end <= seen.at]
    for what in over:
        yield Diagnosis("failed", f"the {what} has expired", CERTIFICATES_ADVICE)
    for each in warnings(found, seen.name, seen.at) if not over else ():
        yield Diagnosis("warning", each.message.partition(": ")[0], CERTIFICATES_ADVICE)
    if not over:
        yield Diagnosis("ok", f"certificates: {', '.join(_days(what, end, seen.at) for what, end in ends)}")


def _days(what: str, end: datetime, now: datetime) -> str:
    return f"the {what} expires in {(end - now) // timedelta(days=1)} days"
