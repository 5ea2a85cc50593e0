"""Whether all is well, in one line for each part of an installation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from doctor import admission, agents, installation
from doctor.finding import CERTIFICATES_ADVICE, Diagnosis, Level, ReportLine, lines_of
from doctor.seen import NotReadError, Seen, known

SOON = timedelta(days=7)
"""Certificates are renewed long before."""
_WORST: Sequence[Level] = ("failed", "warning", "skipped", "ok")
DOCTOR = "fraction-injector doctor says more"


class StatusLine(msgspec.Struct, frozen=True):
    """The state of one part."""

    about: str
    level: Level
    what: str
    """What is wrong with it, or its state if nothing is."""
    advice: str = ""
    facts: Mapping[str, Any] = {}
    """Figures by name, for scripts."""


@dataclass(frozen=True, slots=True)
class _Part:
    about: str
    checks: Sequence[Callable[[Seen], Iterator[Diagnosis]]]
    state: Callable[[Seen], tuple[str, Mapping[str, Any]]]
    """Returns its state if no check finds a problem, and figures in any case."""


def overview(seen: Seen) -> list[StatusLine]:
    """Return a line for each part, in a fixed order."""
    return [_line(part, seen) for part in _PARTS]


def _line(part: _Part, seen: Seen) -> StatusLine:
    found = [line for check in part.checks for line in lines_of(part.about, _run(check, seen))]
    problems = sorted(
        (line for line in found if line.level != "ok"), key=lambda line: _WORST.index(line.level)
    )
    try:
        state, facts = part.state(seen)
    except NotReadError as error:
        problems = problems or [ReportLine(part.about, error.level, str(error), error.advice)]
        state, facts = "", {}
    if not problems:
        return StatusLine(part.about, "ok", state, facts=facts)
    first, *more = problems
    what, _, advice = first.text.partition(" -- ")
    rest = f" (and {len(more)} more: {DOCTOR})" if more else ""
    return StatusLine(part.about, first.level, f"{what}{rest}", advice, facts)


def _run(check: Callable[[Seen], Iterator[Diagnosis]], seen: Seen) -> list[Diagnosis]:
    try:
        return list(check(seen))
    except NotReadError as error:
        return [Diagnosis(error.level, str(error), error.advice)]


def _webhook(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    return _answering(seen, "webhook") if _is_here(seen) else ("runs outside of the cluster", {})


def _is_here(seen: Seen) -> bool:
    entry = known(seen.webhook, None)
    return entry is None or entry.url is None


def _controller(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    lease = seen.lease.value
    answering, facts = _answering(seen, "controller")
    holder = lease.holder if lease is not None else None
    return f"{holder} leads; {answering}", {**facts, "leader": holder}


def _answering(seen: Seen, component: str) -> tuple[str, Mapping[str, Any]]:
    pods = [each for each in seen.policies.value.served if each.component == component]
    count = sum(each.problem is None for each in pods)
    return f"{count} of {len(pods)} answer", {"pods": len(pods), "answering": count}


def _certificates_end(seen: Seen) -> Iterator[Diagnosis]:
    """No served certificate ends soon."""
    for pod, end in _ends(seen):
        if end <= seen.at:
            yield Diagnosis("failed", f"the certificate of {pod} has expired", CERTIFICATES_ADVICE)
        elif end - seen.at < SOON:
            days = (end - seen.at) // timedelta(days=1)
            what = f"the certificate of {pod} expires in {days} days"
            yield Diagnosis("warning", what, CERTIFICATES_ADVICE)


def _certificates(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    ends = [end for _, end in _ends(seen)]
    if not ends:
        return "no pod reports one", {"expires": None}
    first = min(ends)
    return f"the first one expires in {(first - seen.at) // timedelta(days=1)} days", {"expires": first}


def _ends(seen: Seen) -> Iterator[tuple[str, datetime]]:
    for each in seen.policies.value.served:
        if each.certificate_ends is not None:
            yield each.pod, datetime.fromtimestamp(each.certificate_ends, UTC)


def _policies(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    found = seen.policies.value
    counts = Counter(each.component for each in found.served)
    everybody = ", ".join(f"{component}s: {count}" for component, count in sorted(counts.items()))
    where = everybody or "webhooks outside of the cluster"
    facts = {
        "inForce": found.are_in_force,
        "configMap": found.config_map,
        "digest": found.digest,
        "problem": found.problem,
        "served": [
            {
                "pod": each.pod,
                "component": each.component,
                "digest": each.digest,
                "since": datetime.fromtimestamp(each.since, UTC) if each.since is not None else None,
                "leads": each.leads,
                "problem": each.problem,
            }
            for each in found.served
        ],
        "webhooksByPolicies": found.webhooks_by_policies,
    }
    return f"{found.digest} are in force everywhere ({where})", facts


def _agents(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    if known(seen.agents, None) is None:
        return "none are installed", {"registered": 0}
    count = sum(says.report.is_registered for _, says in agents.current_reports(seen))
    return f"{count} are registered with their kubelets", {"registered": count}


def _held(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    held = [node.fact.name for node in seen.nodes.value if node.taints.ours is not None]
    return "none are held for their agent", {"nodes": held}


def _counted(seen: Seen) -> Iterator[Diagnosis]:
    """A controller leads, and some node offers slices."""
    figures = seen.policies.value.figures
    if figures is None:
        yield Diagnosis("skipped", "no leading controller answers, which counts them")
    elif not figures.slices:
        yield Diagnosis("warning", "no node offers slices", f"install the agent; {DOCTOR}")


def _slices(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    figures = seen.policies.value.figures
    if figures is None:
        return "", {}
    facts = {name: getattr(figures, name) for name in ("gpus", "slices", "used", "free")}
    return f"{figures.free} of {figures.slices} slices are free for new pods, on {figures.gpus} GPUs", facts


def _waiting(seen: Seen) -> tuple[str, Mapping[str, Any]]:
    figures = seen.policies.value.figures
    if figures is None:
        return "", {}
    what = f"pods wait for {figures.waiting} slices" if figures.waiting else "no pod waits for slices"
    return what, {"slices": figures.waiting}


def _led(seen: Seen) -> Iterator[Diagnosis]:
    """A controller leads."""
    return (each for each in _counted(seen) if each.level == "skipped")


_PARTS: Sequence[_Part] = (
    _Part("webhook", [admission.webhook, admission.endpoints], _webhook),
    _Part("controller", [installation.controller], _controller),
    _Part("certificates", [_certificates_end], _certificates),
    _Part("policies", [installation.policies], _policies),
    _Part("agents", [agents.agent_set, agents.serving], _agents),
    _Part("nodes", [agents.taints], _held),
    _Part("slices", [_counted], _slices),
    _Part("waiting", [_led], _waiting),
)
