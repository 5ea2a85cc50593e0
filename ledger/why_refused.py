"""Explains in words why a pod was rejected or does not exist, from Events, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kube.names import GROUP
from ledger.quoted_text import closed, quoted

WEBHOOK = f"fractions.{GROUP}"
"""Name of the webhook, which the API server puts before a denial."""
MAX_SHOWN = 3
MAX_MESSAGE = 700
Cause = Literal["denied", "webhook away", "second lock", "quota", "other"]
_WHO: dict[Cause, str] = {
    "denied": "The injector denied it",
    "webhook away": "The API server could not reach the injector, so it rejected the pod",
    "second lock": "An admission policy of the cluster denied it",
    "quota": "The namespace's ResourceQuota denied it",
    "other": "The API server rejected it",
}


_ELSEWHERE = (
    "If a Job or Deployment should have created it, use the name of that. If you created it yourself, the"
    " answer said what rejected it; `fraction-injector explain FILE` shows what the injector does with a"
    " manifest. Or the pod is in another namespace (-n)."
)


@dataclass(frozen=True, slots=True)
class EventSummary:
    """The fields of a Kubernetes Event that matter here."""

    kind: str
    """Kind of the object that it is about."""
    name: str
    reason: str
    message: str
    count: int = 1
    age_seconds: float | None = None


def why_refused(namespace: str, name: str, refusals: Sequence[EventSummary]) -> str:
    """Return one paragraph on a workload that is refused pods, by its Events: one or more, newest first."""
    last = refusals[0]
    cause, said = cause_of(last.message)
    times = f"{last.count} times" if last.count > 1 else "once"
    age = "" if last.age_seconds is None else f", {'last ' * (last.count > 1)}{_ago(last.age_seconds)}"
    who = f"{quoted(last.kind)} {quoted(namespace)}/{quoted(last.name)}"
    asked = "" if last.name == name else f' There is no pod "{quoted(name)}".'
    return (
        f"{who} could not create a pod. It was rejected {times}{age}.{asked} "
        f"{_WHO[cause]}: {closed(said, MAX_MESSAGE)} What would help: {_help(cause, last)}."
    )


def why_absent(
    namespace: str,
    name: str,
    events: Sequence[EventSummary],
    *,
    similar: Sequence[str] = (),
    may_read_events: bool = True,
) -> str:
    """Return one paragraph on a name that no pod has, by Events of a former pod, the newest first."""
    said = [f"There is no pod {quoted(name)} in namespace {quoted(namespace)}."]
    if not may_read_events:
        said.append("Its Events could not be read.")
    for event in events[:MAX_SHOWN]:
        age = "" if event.age_seconds is None else f" {_ago(event.age_seconds)}"
        said.append(f"Event {quoted(event.reason)}{age}: {closed(event.message)}")
    first, more = similar[:MAX_SHOWN], len(similar) - MAX_SHOWN
    if events:
        said.append("So the pod existed and was deleted.")
    elif may_read_events and not similar:
        said.append("There is no Event on it either; Kubernetes keeps Events for an hour.")
    if similar:
        others = f" and {more} more" if more > 0 else ""
        said.append(f"There are pods {', '.join(map(quoted, first))}{others}: use one of these names.")
    else:
        said.append(_ELSEWHERE)
    return " ".join(said)


def is_refusal(event: EventSummary) -> bool:
    """Whether an Event reports that admission rejected a pod, or that the webhook could not be called."""
    return cause_of(event.message)[0] in {"denied", "webhook away", "second lock"}


def cause_of(message: str) -> tuple[Cause, str]:
    """Return what rejected a pod, by the message of an Event, and the rejection's text."""
    message = message[:MAX_MESSAGE].removeprefix("Error creating: ")
    denied = f'admission webhook "{WEBHOOK}" denied the request: '
    if denied in message:
        return "denied", message.partition(denied)[2]
    if "failed calling webhook" in message and WEBHOOK in message:
        return "webhook away", message
    if "ValidatingAdmissionPolicy" in message:
        return "second lock", message
    return ("quota", message) if "exceeded quota" in message else ("other", message)


def _help(cause: Cause, last: EventSummary) -> str:
    if cause == "webhook away":
        return (
            "tell the admin, who finds this message in docs/operating/runbook.md; it is retried automatically"
        )
    if cause == "quota":
        return "wait until pods of the namespace end, request less, or ask the admin for more"
    if cause == "other":
        return f"fix what the message names in {_template(last)}"
    if cause == "denied" and ("quota" in last.message or "try again later" in last.message):
        return "follow the message; the pod is retried automatically"
    return f"follow the message in {_template(last)}"


def _template(last: EventSummary) -> str:
    if last.kind == "Job":
        return f"the manifest of Job {quoted(last.name)}, then delete the Job and create it again"
    if last.kind == "ReplicaSet":
        owner = f"the owner of ReplicaSet {quoted(last.name)}, usually a Deployment"
        return f"the pod template of {owner}, and apply it"
    return f"the pod template of {quoted(last.kind)} {quoted(last.name)}, and apply it"


def _ago(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes} minutes ago" if minutes > 1 else "just now"
