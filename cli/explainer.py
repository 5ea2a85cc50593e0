"""Previews the decision for an object with the webhook's own review."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jsonpatch
import msgspec

from cli.gpu_kinds import claimable_cards, offers_cards, remaining_kinds
from cli.pod_templates import COPIES_LABELS, pod_templates, refuse_label
from kube.names import INJECTED_ANNOTATION, QUEUE_ID_LABEL, QUEUE_NAME_LABEL
from kube.other_constraints import ConstrainedSpec, chosen_without
from kube.reasons import Reason
from ledger.ledger import Ledger
from modes.claim import template_name, template_spec
from modes.instance import Instance
from policies.loading.policy_set import PolicySet
from policies.model.pod_keys import misplaced_keys
from webhook.admission_request import Request
from webhook.decision import Outcome
from webhook.placing.placer import LedgerPlacer
from webhook.review import Reviewer
from webhook.rules import Rules

_OF_SHARE = ("slices", "index", "profile", "claim", "memoryMiB", "container", "model", "alias")
_OF_POLICY = ("policy", "queue", "limiter", "limitsFrom", "place", "sameModel")
"""Facts that are null without a share, and without a policy."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision of the webhook, with its reasons and the changes."""

    name: str
    outcome: Outcome
    patch: list[dict[str, Any]]
    before: dict[str, Any]
    """The object without our patch."""
    pod: dict[str, Any]
    """The object as it would be stored."""
    kinds: Sequence[dict[str, Any]] = ()
    """Kinds of GPU that the pod may get."""
    has_room: bool | None = None
    """Whether a node has room for the pod now; None if it gets no share, or if that is not known."""
    unoffered: str = ""
    """The DRA driver on whose cards the decision depends, if the inventory has none; empty otherwise."""

    @property
    def notes(self) -> list[str]:
        """What an admitted pod's author may have meant, or should know of the chosen GPU."""
        if not self.allowed:
            return []
        injection, known = self.outcome.injection, []
        if injection is not None and injection.placement.gpus:
            with contextlib.suppress(msgspec.ValidationError):  # Kubernetes will deny it
                spec = msgspec.convert(self.pod["spec"], ConstrainedSpec)
                known = [chosen_without(spec.not_considered)] if spec.not_considered else []
        labels, annotations = (_keys(self.before, field) for field in ("labels", "annotations"))
        return [*known, *(f"{kind} {key} {rule}" for kind, key, rule in misplaced_keys(labels, annotations))]

    @property
    def allowed(self) -> bool:
        """Whether the object would be admitted."""
        return self.outcome.denial is None

    def as_json(self) -> dict[str, Any]:
        """Return the object that `explain --output json` prints."""
        injection, policy = self.outcome.injection, self.outcome.policy
        facts: dict[str, Any] = {
            "allowed": self.allowed,
            "code": self.outcome.reason.value,
            "message": self.outcome.denial.message if self.outcome.denial is not None else "",
            **dict.fromkeys((*_OF_SHARE, *_OF_POLICY)),
            "prefer": [],
            "passedOver": "",
            "hasRoom": self.has_room,
            "owner": owner_of(self.pod),
            "kinds": list(self.kinds),
            "notes": self.notes,
            "patch": self.patch,
            "pod": self.pod,
        }
        if policy is not None:
            demands, is_limited = policy.demands, not self._is_whole and not self.instance
            facts |= {"policy": policy.name, "queue": policy.queue, "limitsFrom": policy.limits_from}
            facts |= {"place": demands.place, "sameModel": demands.same_model, "prefer": list(demands.prefer)}
            facts["limiter"] = policy.limiter.name if is_limited else "none"
        if injection is not None:
            placement, claim = injection.placement, injection.claim
            facts |= {"slices": injection.slices, "memoryMiB": injection.memory_mib, "alias": injection.alias}
            facts |= {"container": injection.container, "model": placement.model}
            # A number, or a list of whole or several GPUs; None if it has none.
            indices = list(placement.gpus)
            is_list = self._is_whole or len(indices) > 1
            facts |= {"passedOver": placement.passed_over}
            facts["index"] = indices if is_list else next(iter(indices), None)
            if self.instance:
                facts["profile"] = self.instance.profile.name
            if claim is not None:
                facts["claim"] = {"template": template_name(claim), "spec": template_spec(claim)}
        return facts

    @property
    def instance(self) -> Instance | None:
        """The MIG instance that the pod gets; None if it gets slices."""
        injection = self.outcome.injection
        return injection.placement.instance if injection is not None else None

    @property
    def _is_whole(self) -> bool:
        injection, policy = self.outcome.injection, self.outcome.policy
        if injection is None or policy is None or injection.memory_mib is not None:
            return False
        if injection.claim is not None:
            return injection.claim.fraction.is_whole
        gpus, rest = divmod(injection.slices, policy.slices_per_gpu)
        return not rest and len(injection.placement.indices) in {0, gpus}


def _keys(found: Any, field: str) -> list[str]:
    """Return the keys of an object's labels or annotations, whatever a file has in their place."""
    for step in ("metadata", field):
        found = found.get(step) if isinstance(found, dict) else None
    return [*map(str, found)] if isinstance(found, dict) else []


def owner_of(pod: dict[str, Any]) -> str | None:
    """Describe the owner whose replica a pod is (ledger/owners.py); None without an owner."""
    metadata = pod.get("metadata") or {}
    references = metadata.get("ownerReferences")
    for owner in references if isinstance(references, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True and owner.get("uid"):
            return f"{owner.get('kind')} {owner.get('name')}"
    if metadata.get("generateName"):
        return f"pods named {metadata['generateName']}*"
    labels = metadata.get("labels") or {}
    queue = labels.get(QUEUE_NAME_LABEL) or labels.get(QUEUE_ID_LABEL)
    return f"queue {queue}" if queue else None


class Explainer:
    """Explains objects, each as if it were the only one, or all together.

    Args:
        policies: the policies in force.
        ledger: does not change if each object is explained as the only one.
        together: whether each pod takes the slices that it gets from the pods behind it.
    """

    def __init__(self, policies: PolicySet, ledger: Ledger, *, together: bool = False) -> None:
        self._together = together
        self._count = 0
        self._outcomes: list[tuple[Request, Outcome]] = []
        self._ledger = ledger
        self._reviewer = Reviewer(
            lambda: policies, Rules(ledger.may_have, ledger.mig_cards), LedgerPlacer(ledger), self._observe
        )

    def explain(self, found: dict[str, Any]) -> list[Explanation]:
        """Explain a Pod, an AdmissionReview, or the pods that another object creates; may be empty.

        A Job is reviewed first, then the pod that the Job controller would create.
        """
        kind = found["kind"]
        if kind == "AdmissionReview":
            return [self._review(found)]
        if kind == "Pod":
            return [self._review(review_of(found))]
        denial = refuse_label(found)
        if denial is not None:
            name = (found.get("metadata") or {}).get("name") or ""
            return [Explanation(name, Outcome(denial.reason, denial=denial), [], found, found)]
        if kind in ("Job", "CronJob"):
            return [self._job(found if kind == "Job" else job_of(found))]
        return self._templates(found)

    def _job(self, found: dict[str, Any]) -> Explanation:
        job = self._review(review_of(found))
        return self._review(review_of(pod_of_template(job.pod))) if job.allowed else job

    def _templates(self, found: dict[str, Any]) -> list[Explanation]:
        """Explain the pods of any kind, each of several named after the path of its template."""
        metadata, explanations, templates = found.get("metadata"), [], pod_templates(found)
        for path, template in templates:
            copied = _labelled_as(found, template) if found["kind"] in COPIES_LABELS else template
            pod = pod_of_template({"metadata": metadata, "spec": {"template": copied}})
            explanation = self._review(review_of(pod))
            name = f"{explanation.name} {path}" if len(templates) > 1 else explanation.name
            explanations.append(replace(explanation, name=name))
        return explanations

    def _observe(self, request: Request, outcome: Outcome, _seconds: float) -> None:
        self._outcomes.append((request, outcome))

    def _review(self, review: dict[str, Any]) -> Explanation:
        """Review an object.

        Raises:
            UnreadableReviewError: the review has no request to answer.
        """
        review = self._numbered(review) if self._together else review
        reply = msgspec.json.decode(asyncio.run(self._reviewer.review(msgspec.json.encode(review))))
        request, outcome = self._outcomes.pop()
        if not self._together:
            self._ledger.release(request.uid)
        patch = patch_of(reply)
        pod = review["request"].get("object")
        name = review["request"].get("name") or ""
        after = jsonpatch.apply_patch(pod, patch) if patch else pod
        kinds, has_room = self._room(outcome, after)
        # A pod that was injected before stays where it is, on a node that its placement does not name.
        if not has_room and INJECTED_ANNOTATION in _keys(pod, "annotations"):
            has_room = None
        return Explanation(name, outcome, patch, pod, after, kinds, has_room, self._unoffered(outcome))

    def _room(self, outcome: Outcome, pod: dict[str, Any]) -> tuple[list[dict[str, Any]], bool | None]:
        """Return the kinds of GPU that a decided pod may get, and whether a node has room."""
        injection = outcome.injection
        if injection is None:
            return [], None
        if injection.claim is not None:
            return claimable_cards(self._ledger, injection.claim, pod)
        placement = injection.placement
        kinds = remaining_kinds(self._ledger, pod, placement)
        return kinds, placement.node is not None if kinds and placement.gpu_mib else None

    def _unoffered(self, outcome: Outcome) -> str:
        policy = outcome.policy
        if policy is None or not policy.mode.is_claimed:
            return ""
        injection = outcome.injection
        is_settled = injection is not None and injection.claim is None and not injection.placement.passed_over
        depends = (injection is not None and not is_settled) or outcome.reason is Reason.NO_NODE
        driver = policy.mode.resource
        return driver if depends and not offers_cards(self._ledger, driver) else ""

    def _numbered(self, review: dict[str, Any]) -> dict[str, Any]:
        """Return a review that reserves what its pod gets, under a name that no other has."""
        self._count += 1
        request = review.get("request")
        if not isinstance(request, dict):
            return review
        return review | {"request": request | {"uid": f"together-{self._count}", "dryRun": False}}


def patch_of(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Decode the JSON Patch of a review's answer; empty if there is none."""
    encoded = reply["response"].get("patch")
    return list(msgspec.json.decode(base64.b64decode(encoded))) if encoded else []


NO_UID = "00000000-0000-0000-0000-000000000000"


def review_of(found: dict[str, Any], *, uid: str = NO_UID, dry_run: bool = True) -> dict[str, Any]:
    """Wrap a Pod or a Job in the review that the API server would send for its creation."""
    found = with_defaults(found)
    metadata = found.get("metadata") or {}
    group, _, version = found.get("apiVersion", "v1").rpartition("/")
    plural = {"Pod": "pods", "Job": "jobs"}[found["kind"]]
    start = metadata.get("generateName")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": found["kind"]},
            "resource": {"group": group, "version": version, "resource": plural},
            "name": metadata.get("name") or (f"{start}*" if start else ""),
            "namespace": metadata.get("namespace") or "default",
            "operation": "CREATE",
            "dryRun": dry_run,
            "object": found,
        },
    }


def job_of(cron_job: dict[str, Any]) -> dict[str, Any]:
    """Return the Job that the CronJob controller would create."""
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    name = (cron_job.get("metadata") or {}).get("name") or "job"
    return {"apiVersion": "batch/v1", "kind": "Job", **_made_of(template, cron_job, name=name)}


def pod_of_template(workload: dict[str, Any]) -> dict[str, Any]:
    """Return the pod that a workload's controller would create: its template, with a generated name."""
    template = (workload.get("spec") or {}).get("template") or {}
    name = f"{(workload.get('metadata') or {}).get('name', 'pod')}-"
    return {"apiVersion": "v1", "kind": "Pod", **_made_of(template, workload, generateName=name)}


def _made_of(template: dict[str, Any], owner: dict[str, Any], **name: str) -> dict[str, Any]:
    metadata = {**(template.get("metadata") or {}), **name}
    if namespace := (owner.get("metadata") or {}).get("namespace"):
        metadata["namespace"] = namespace
    return {"metadata": metadata, "spec": template.get("spec")}


def _labelled_as(found: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """Return a template with the labels of its object, beside its own."""
    metadata = template.get("metadata") or {}
    labels = {**((found.get("metadata") or {}).get("labels") or {}), **(metadata.get("labels") or {})}
    return {**template, "metadata": {**metadata, "labels": labels}}


def with_defaults(found: dict[str, Any]) -> dict[str, Any]:
    """Set the API server's defaults before admission, as far as they affect a decision.

    Requests default to limits, and amounts become text; the given object does not change.
    """
    found = copy.deepcopy(found)
    for container in _containers(found):
        resources = container.get("resources")
        if not isinstance(resources, dict):
            continue
        for field in ("limits", "requests"):
            if isinstance(resources.get(field), dict):
                resources[field] = {name: _text(amount) for name, amount in resources[field].items()}
        if isinstance(resources.get("limits"), dict) and found["kind"] == "Pod":
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return found


def _containers(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = found.get("spec")
    if isinstance(spec, dict) and found["kind"] != "Pod":
        spec = (spec.get("template") or {}).get("spec")
    if not isinstance(spec, dict):
        return
    for field in ("initContainers", "containers"):
        every = spec.get(field)
        yield from (each for each in every or () if isinstance(each, dict)) if isinstance(every, list) else ()


def _text(amount: Any) -> Any:
    """Return a number in the notation of the API server, and other values unchanged."""
    return str(amount) if isinstance(amount, (int, float)) and not isinstance(amount, bool) else amount
