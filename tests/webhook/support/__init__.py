"""What tests of the webhook need: policies from text, small ledgers, pods, and one decision at a time."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch

from cli.manifests import read_inventory
from modes.resource_names import ResourceNames
from policies.loading.loader import load_policies, parse_policies
from tests.webhook.support.reviewed_again import check_again, finish, is_injected_pod, patch_of
from webhook.decision import Outcome
from webhook.placing.placer import LedgerPlacer
from webhook.review import Reviewer
from webhook.rules import Rules

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
POLICIES = Path(__file__).parent.parent.parent.parent / "policies"
LABEL = "clearml-injector/fraction"
LIBRARY = "/usr/local/vgpu"
CACHE = "/usr/local/vgpu-cache"
UID = "6f7a1f0e-0000-4000-8000-000000000001"


@cache
def default_policies():
    return load_policies(POLICIES)


def policies(text="", **files):
    """Policies whose default one has further keys, given as YAML; other files by name."""
    texts = {"default": f"kind: Policy\nname: default\n{text}\n", **files}
    return parse_policies({f"{name}.yaml": text.encode() for name, text in texts.items()})


def fixture_ledger(names=None):
    return read_inventory(FIXTURES / "inventory.json", names or ResourceNames())


def pod(*, fraction="0.500", containers=None, metadata=None, labels=None, **spec) -> dict[str, Any]:
    """A pod named "task" with one container "train", as the API server would send it."""
    all_labels = {} if fraction is None else {LABEL: fraction}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "task", "labels": {**all_labels, **(labels or {})}, **(metadata or {})},
        "spec": {"containers": [container()] if containers is None else containers, **spec},
    }


def container(name="train", *, limits=None, **fields) -> dict[str, Any]:
    """A container; requests equal limits, as the API server makes them."""
    made = {"name": name, "image": "example.com/train:1", **fields}
    if limits is not None:
        made["resources"] = {"limits": dict(limits), "requests": dict(limits)}
    return made


def review_of(found: Any, **request) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team",
            "operation": "CREATE",
            "object": found,
            **request,
        },
    }


def fixture_review(name: str) -> dict[str, Any]:
    return json.loads((FIXTURES / "admission-reviews" / f"{name}.json").read_text())


@dataclass
class Decision:
    """One answer, taken apart."""

    sent: Any
    reply: dict[str, Any]
    outcome: Outcome
    patch: list[dict[str, Any]]

    @property
    def allowed(self) -> bool:
        return self.reply["response"]["allowed"]

    @property
    def code(self) -> str:
        return self.outcome.reason.value

    @property
    def message(self) -> str:
        return self.reply["response"]["status"]["message"]

    @property
    def stored(self) -> dict[str, Any]:
        """The object after the patch."""
        assert self.allowed, self.message
        return jsonpatch.apply_patch(self.sent, self.patch)

    @property
    def spec(self) -> dict[str, Any]:
        return self.stored["spec"]

    @property
    def annotations(self) -> dict[str, str]:
        return self.stored["metadata"].get("annotations") or {}

    def container(self, name="train") -> dict[str, Any]:
        return named([*self.spec["containers"], *(self.spec.get("initContainers") or [])], name)

    def env(self, name="train") -> list[tuple[str, Any]]:
        """Names and values, in order."""
        return [(entry["name"], entry.get("value")) for entry in self.container(name).get("env") or []]


def as_body(review: Any) -> bytes:
    return review if isinstance(review, bytes) else json.dumps(review).encode()


def named(items, name):
    (found,) = [item for item in items if item["name"] == name]
    return found


class Webhook:
    """A reviewer over a ledger, without a server.

    Every pod that it injects is reviewed again (reviewed_again.py), unless a test says that it cannot be.
    """

    def __init__(self, policy_set=None, ledger=None, *, placer=None, again=True):
        self.policies = policy_set or default_policies()
        self.ledger = ledger or fixture_ledger()
        self.outcomes: list[Outcome] = []
        self._again = again
        rules = Rules(self.ledger.may_have, self.ledger.mig_cards)
        self.reviewer = Reviewer(
            lambda: self.policies, rules, placer or LedgerPlacer(self.ledger), self._observe
        )

    def _observe(self, _request, outcome, _seconds):
        self.outcomes.append(outcome)

    def send(self, review: Any) -> Decision:
        """Decide a review, or the text of one."""
        body = as_body(review)
        answered = finish(self.reviewer.review(body))
        outcome, sent = self.outcomes[-1], json.loads(body)
        found = sent["request"].get("object")
        decided = Decision(found, json.loads(answered), outcome, patch_of(answered))
        if self._again and is_injected_pod(outcome):
            check_again(self.policies, self.ledger, sent, decided.stored)
        return decided

    def decide(self, found: Any, **request) -> Decision:
        return self.send(review_of(found, **request))


def decide(found: Any, policy_set=None, **request) -> Decision:
    """Decide one object in an empty cluster of the fixture's nodes."""
    return Webhook(policy_set).decide(found, **request)


def reviewed(found=None, policy_set=None):
    """The webhook after its first review of a pod, and the pod as it came out."""
    webhook = Webhook(policy_set)
    first = webhook.decide(found or pod())
    assert first.code == "injected"
    return webhook, first.stored
