"""Reviews admitted pods again, as an API server does: as they were stored, and after a stranger's webhook."""

import base64
import copy
import json

from webhook.placing.placer import LedgerPlacer
from webhook.review import Reviewer
from webhook.rules import Rules

SIDECAR = {
    "name": "stranger-proxy",
    "image": "example.com/proxy:1",
    "volumeMounts": [{"name": "stranger-token", "mountPath": "/var/run/secrets/tokens", "readOnly": True}],
}
DEFAULTS = {"limits": {"ephemeral-storage": "4Gi"}, "requests": {"ephemeral-storage": "1Gi"}}
"""What a LimitRange gives to containers that do not say it."""
VOID = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def finish(coroutine):
    """Run a review whose placer never waits, without an event loop: it ends at once."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the review waits")


def patch_of(reply):
    """The operations of a reply's patch."""
    patch = json.loads(reply)["response"].get("patch")
    return [] if patch is None else json.loads(base64.b64decode(patch))


def check_again(policies, ledger, review, stored):
    """Check that a second review of an admitted pod patches nothing, and a third what a stranger brought.

    Both are dry runs over the same ledger, and leave no trace in it.
    """
    second, _ = decide_again(policies, ledger, review, stored)
    assert (second.denial, second.reason.value, second.patch) == (None, "unchanged", b"")
    changed = after_a_stranger(stored)
    third, patch = decide_again(policies, ledger, review, changed)
    assert third.denial is None, third.denial
    hidden = {"op": "add", "path": "/spec/containers/0/env", "value": VOID}
    assert patch == ([hidden] if third.policy.hide_gpus_from_others else []), patch


def decide_again(policies, ledger, review, found):
    """Decide a pod as a dry run; return the outcome and the patch."""
    request = {**review["request"], "object": found, "dryRun": True}
    outcomes = []
    rules = Rules(mig_cards=ledger.mig_cards)
    reviewer = Reviewer(
        lambda: policies, rules, LedgerPlacer(ledger), lambda _r, outcome, _s: outcomes.append(outcome)
    )
    answer = finish(reviewer.review(json.dumps({**review, "request": request}).encode()))
    return outcomes[0], patch_of(answer)


def after_a_stranger(stored):
    """Return an admitted pod after another webhook: a sidecar first, a toleration, defaults of resources."""
    changed = copy.deepcopy(stored)
    metadata, spec = changed["metadata"], changed["spec"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "stranger.example.com/injected": "yes"}
    metadata["labels"] = {**metadata["labels"], "stranger.example.com/injected": "yes"}
    toleration = {"key": "stranger", "operator": "Exists"}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": "stranger-token", "projected": {"sources": []}}]
    for each in [*spec["containers"], *(spec.get("initContainers") or ())]:
        resources = each["resources"] = each.get("resources") or {}
        for field, amounts in DEFAULTS.items():
            resources[field] = {**amounts, **(resources.get(field) or {})}
    spec["containers"] = [copy.deepcopy(SIDECAR), *spec["containers"]]
    return changed


def is_injected_pod(outcome):
    """Whether a review gave a pod a share, of our own labels or of another system's."""
    return outcome.injection is not None and outcome.reason.value == "injected"
