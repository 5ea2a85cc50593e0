"""Under which policies, in front of which cluster and with which decider a search sends its reviews."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec

from cli.manifests import read_objects
from ledger.ledger import Ledger
from policies.loading.policy_set import PolicySet
from tests.ledger.cluster import gpu_node
from tests.long.campaign import hostile, instances
from tests.long.campaign.search.genome import Base
from tests.webhook.support import (
    FIXTURES,
    container,
    fixture_ledger,
    fixture_review,
    pod,
    policies,
    review_of,
)
from tests.webhook.support.field_values import PREFERRED, REQUIRED
from tests.webhook.support.many_policies import POLICIES
from webhook.admission_review import UnreadableReviewError
from webhook.decision import Decider
from webhook.patch_cache.cache import PatchCache
from webhook.placing.placer import LedgerPlacer, Placed
from webhook.review import Observer, Reviewer
from webhook.rules import Rules
from webhook.worker.workers import Workers

EXAMPLES = Path(__file__).parents[4] / "examples"
JOBS = {"group": "batch", "version": "v1", "resource": "jobs"}


@dataclass(frozen=True)
class Setting:
    """What is the same for all reviews of a niche."""

    policies: PolicySet
    ledger: Callable[[], Ledger] = fixture_ledger
    decider: Callable[[], Decider] = lambda: PatchCache(Rules())

    def reviewer(
        self, ledger: Ledger, observe: Observer, workers: Workers | None = None
    ) -> tuple[Reviewer, ForgetfulPlacer]:
        """Return a reviewer that has met no pod yet; without workers it decides all by itself."""
        placer = ForgetfulPlacer(ledger)
        return Reviewer(lambda: self.policies, self.decider(), placer, observe, workers), placer


class ForgetfulPlacer(LedgerPlacer):
    """Places in a ledger that is empty again for the next review."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._reserved: list[str] = []

    def place(self, request: Any) -> Placed:
        if request.accounting.reservation is not None:
            self._reserved.append(request.accounting.reservation)
        return super().place(request)

    def forget(self) -> None:
        """Release whatever was reserved."""
        for each in self._reserved:
            self.release(each)
        self._reserved.clear()


def large_ledger() -> Ledger:
    """A thousand nodes, no two with the same labels."""
    made = Ledger()
    made.replace([gpu_node(f"node-{number:04d}") for number in range(1000)], [])
    return made


def settings() -> dict[str, Setting]:
    """All that the tests of the webhook know, other systems' words, MIG instances, and a large cluster."""
    found = {name: Setting(each) for name, each in POLICIES.items()}
    found["aliases"] = Setting(policies("aliases: {kai: true, hami: true}"))
    found |= {
        name: Setting(instances.policies_of(name), instances.ledger_of_instances) for name in instances.KEYS
    }
    found["a thousand nodes"] = Setting(policies(), large_ledger)
    return found


def bases() -> list[Base]:
    """Recorded and made-up reviews, of every kind; those that are no creation too."""
    recorded = sorted(path.name.removesuffix(".json") for path in (FIXTURES / "admission-reviews").iterdir())
    found: dict[str, Any] = {
        "a rich pod": rich_pod(),
        "a rich pod without our label": rich_pod(fraction=None),
    }
    found["a Job of such pods"] = rich_job()
    found |= {name: fixture_review(name) for name in recorded}
    found |= {f"made {number}": each for number, each in enumerate(hostile.bases())}
    for file in sorted([*EXAMPLES.glob("*/*.yaml"), *(FIXTURES / "added").glob("*.yaml")]):
        found |= {f"{file.parent.name}/{file.name} {at}": each for at, each in enumerate(_reviews_of(file))}
    return [Base(name, msgspec.json.encode(each)) for name, each in found.items()]


def rich_pod(fraction: str | None = "0.500") -> dict[str, Any]:
    """A review of a pod that has something in every list and map that rules read."""
    asked = {"cpu": "1", "memory": "1Gi"}
    fields = {
        "env": [{"name": "A", "value": "a"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "volumeDevices": [{"name": "raw", "devicePath": "/raw"}],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
    }
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: []}}
    made = pod(
        fraction=fraction,
        metadata={"annotations": {"note": "x"}, "ownerReferences": [{"uid": "u-1", "controller": True}]},
        containers=[container(limits=asked, **fields)],
        initContainers=[container("first", limits=asked, **fields)],
        volumes=[{"name": "data", "emptyDir": {}}],
        affinity=affinity,
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        nodeSelector={"zone": "a"},
        overhead={"cpu": "1m"},
        resources={"limits": {}, "requests": {}},
    )
    return review_of(made, userInfo={"username": "ann", "groups": ["system:authenticated"]})


def rich_job() -> dict[str, Any]:
    """A review of a Job of such pods."""
    review = rich_pod()
    found = review["request"]["object"]
    template = {"metadata": dict(found["metadata"]), "spec": found["spec"]}
    review["request"]["object"] = {"metadata": found["metadata"], "spec": {"template": template}}
    review["request"]["resource"] = JOBS
    return review


def _reviews_of(file: Path) -> Iterator[dict[str, Any]]:
    try:
        objects = read_objects(file)
    except ValueError:
        return
    for each in objects:
        if each.get("kind") == "Pod":
            yield review_of(each)
        elif each.get("kind") == "Job":
            yield review_of(each, resource=JOBS)


def patched(base: Base, setting: Setting) -> Base | None:
    """Return the second review of a base under a setting; None where the first one changes nothing."""
    reviewer, _ = setting.reviewer(setting.ledger(), lambda *_: None)
    try:
        answer = reviewer.answer(base.body)
    except UnreadableReviewError:
        return None
    if not isinstance(answer, bytes):
        return None
    text = json.loads(answer)["response"].get("patch")
    if text is None:
        return None
    review, patch = json.loads(base.body), json.loads(b64decode(text))
    review["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], patch)
    return Base(f"{base.name}, as it was patched", msgspec.json.encode(review))
