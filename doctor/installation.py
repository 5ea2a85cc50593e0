"""Checks of the components: CRDs, controller, policies and certificates. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from certs.values import LeafFacts, format_time
from doctor.finding import CERTIFICATES_ADVICE, Diagnosis
from doctor.seen import NotRead, Read, Seen, StoredPolicies, known
from kube.names import API_VERSION

if TYPE_CHECKING:
    from certs.observation import Authority, Observation

CRDS = ("gpuledgers", "gpunodes")
SOON = timedelta(days=7)
"""Certificates are renewed long before."""
LATE_SECONDS = 30.0
"""Tolerance of the times in a Lease: the clock of this machine may be some seconds off."""


def is_missing(seen: Seen) -> bool:
    """Whether nothing of the installation is there: every other check would fail for this one reason."""
    read = (seen.webhook, seen.lease, seen.agents)
    return all(each == Read(None) for each in read) and isinstance(seen.policies, NotRead)


def installed(seen: Seen) -> Iterator[Diagnosis]:
    """The chart is installed."""
    if not is_missing(seen):
        return
    what = f"{seen.name} is not installed in namespace {seen.namespace}"
    yield Diagnosis("failed", what, "run helm install, or name the installation: --release NAMESPACE/NAME")


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
    if not lease.holder_identity or lease.renew_time is None:
        yield Diagnosis("failed", "no controller leads", pods)
        return
    ago = (seen.at - lease.renew_time).total_seconds()
    if ago > lease.lease_duration_seconds + LATE_SECONDS:
        what = f"the leading controller has not renewed its Lease for {ago:.0f} s"
        yield Diagnosis("failed", what, f"{pods}; compare the clock of this machine")
    elif ago < -LATE_SECONDS:
        what = f"the leading controller renewed its Lease {-ago:.0f} s in the future"
        advice = "set the clocks of this machine and of the controller's node: certificates depend on them"
        yield Diagnosis("warning", what, advice)
    if -LATE_SECONDS <= ago <= lease.lease_duration_seconds + LATE_SECONDS:
        yield Diagnosis("ok", f"{lease.holder_identity} leads")


def policies(seen: Seen) -> Iterator[Diagnosis]:
    """The policies are valid, and every process serves them."""
    stored = seen.policies.value
    if stored.problem is not None:
        what = f"the policies are broken: {stored.problem}"
        yield Diagnosis("failed", what, "repair the chart's values")
        return
    processes = seen.processes.value
    others = [each for each in processes if each.digest != stored.digest]
    for each in others:
        what = f"pod {each.pod} does not serve the policies: {each.problem or f'it serves {each.digest}'}"
        yield Diagnosis("failed", what, f"kubectl --namespace {seen.namespace} logs {each.pod}")
    counts = Counter(each.component for each in processes)
    entry = known(seen.webhook, None)
    is_elsewhere = entry is not None and entry.url is not None
    if not (counts["webhook"] or is_elsewhere):
        yield Diagnosis("failed", "no webhook serves them", "start one: helm upgrade, webhook.replicas")
    elif not others:
        named = [f"{component}s: {count}" for component, count in sorted(counts.items())]
        where = ", ".join([*named, *(["webhook: outside of the cluster, not asked"] if is_elsewhere else [])])
        since = max([each.since for each in processes if each.since is not None], default=None)
        when = f" since {format_time(datetime.fromtimestamp(since, UTC))}" if since is not None else ""
        yield Diagnosis("ok", f"policies {stored.digest} are in force everywhere ({where}){when}")


def slices(seen: Seen) -> Iterator[Diagnosis]:
    """A controller counts slices, and there are some."""
    found = next((each.figures for each in seen.processes.value if each.figures is not None), None)
    if found is None:
        yield Diagnosis("skipped", "no leading controller answers, which counts slices")
    elif not found.slices and found.cards:
        what = f"DRA drivers offer {found.cards} cards to claims, and no node offers slices"
        if of_slices := known(seen.policies, StoredPolicies(None)).of_slices:
            advice = "set resources.mode: dra in these policies, or have agents offer slices"
            yield Diagnosis("warning", f"{what}, as policy {', '.join(of_slices)} needs", advice)
        else:
            yield Diagnosis("ok", what)
    elif not found.slices:
        yield Diagnosis(
            "warning", "no node offers slices", "install the agent: docs/getting-started/agent.md"
        )
    else:
        waiting = f"pods wait for {found.waiting} slices" if found.waiting else "no pod waits for slices"
        what = f"{found.free} of {found.slices} slices are free for new pods, on {found.gpus} GPUs; {waiting}"
        yield Diagnosis("ok", what)


def served_certificates(seen: Seen) -> Iterator[Diagnosis]:
    """No served certificate expires soon."""
    ends = [
        (datetime.fromtimestamp(each.certificate_ends, UTC), each.pod)
        for each in seen.processes.value
        if each.certificate_ends is not None
    ]
    for end, pod in ends:
        if end <= seen.at:
            yield Diagnosis("failed", f"the certificate of {pod} has expired", CERTIFICATES_ADVICE)
        elif end - seen.at < SOON:
            yield Diagnosis("warning", _days(f"certificate of {pod}", end, seen.at), CERTIFICATES_ADVICE)
    if ends and min(ends)[0] - seen.at >= SOON:
        yield Diagnosis("ok", _days("first served certificate", min(ends)[0], seen.at))


def certificates(seen: Seen) -> Iterator[Diagnosis]:
    """Leaf and CA exist and do not expire soon."""
    found = seen.certificates.value
    leaf, authority = found.tls.leaf, found.authorities.current
    if leaf is None:
        what = f"Secret {seen.name}-tls holds no valid certificate of a known CA"
        yield Diagnosis("failed", what, CERTIFICATES_ADVICE)
        return
    parts: list[tuple[str, Authority | LeafFacts]] = [("leaf", leaf)]
    parts += [("CA", authority)] if authority is not None else []
    faults = list(_faults(found, leaf, parts, seen.at))
    yield from faults
    if not faults:
        for what, part in parts:
            if part.not_after - seen.at <= SOON:
                said = f"{_days(what, part.not_after, seen.at)} and was not renewed"
                yield Diagnosis("warning", said, CERTIFICATES_ADVICE)
        days = ", ".join(_days(what, part.not_after, seen.at) for what, part in parts)
        yield Diagnosis("ok", f"certificates: {days}")


def _faults(
    found: Observation, leaf: LeafFacts, parts: Sequence[tuple[str, Authority | LeafFacts]], now: datetime
) -> Iterator[Diagnosis]:
    for what, part in parts:
        if part.not_after <= now:
            yield Diagnosis("failed", f"the {what} has expired", CERTIFICATES_ADVICE)
        if part.not_before > now:
            advice = "compare the clocks of this machine, the API servers and the nodes"
            yield Diagnosis(
                "failed", f"the {what} is not valid before {format_time(part.not_before)}", advice
            )
    if found.bundle and leaf.issuer_sha256 not in {each.sha256 for each in found.bundle}:
        what = "no CA in the caBundle signed the leaf: API servers refuse every labelled pod with a 500"
        yield Diagnosis("failed", what, CERTIFICATES_ADVICE)


def _days(what: str, end: datetime, now: datetime) -> str:
    return f"the {what} expires in {(end - now) // timedelta(days=1)} days"
