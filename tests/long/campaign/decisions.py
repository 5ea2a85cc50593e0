"""A campaign of hostile reviews: `python -m tests.long.campaign.decisions --reviews N [--seed S]`.

What is let in is patched, checked by the oracle where it knows the request, and reviewed a second time, which
must change nothing, and a third time after a stranger's webhook. The ledger must never promise a ninth slice,
nor a namespace more than its quota. Prints counts; exits with 1 on a finding.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ledger.ledger import Ledger
from policies.loading.policy_set import PolicySet
from testbed.registration import MEMORY_LABEL
from tests.ledger.cluster import gpu_node
from tests.long.campaign import hostile, instances, tampering
from tests.long.campaign.oracle import LABEL, Expected, faults, faults_of_either
from tests.webhook.support import Decision, Webhook, as_body, fixture_ledger, policies
from tests.webhook.support.reviewed_again import after_a_stranger, decide_again, missing
from webhook.decision import Outcome

EIGHTHS = {f"0.{eighths * 125:03d}": eighths for eighths in range(1, 8)}
QUOTA = 24
"""Slices of each namespace with a quota."""
NAMESPACES = ("team", "other")


class Setting(NamedTuple):
    """What an epoch of a campaign has for all its reviews."""

    policies: PolicySet
    expected: Expected
    faults: Callable[[dict[str, Any], Expected], Iterator[str]] = faults
    ledger: Callable[[], Ledger] = fixture_ledger
    tampers: Sequence[tampering.Tamper] = tampering.TAMPERS


def ledger_of_mixed_cards() -> Ledger:
    """Return an empty cluster of cards of which several take as many slices of the same memory."""
    made = Ledger()
    cards = {"A10": 23028, "A10G": 23030, "L4": 23034, "A100-80GB": 81920, "H100": 81559, "T4": 15360}
    for model, mib in cards.items():
        for number in range(6):
            node = gpu_node(f"{model.lower()}-{number}", mib=mib)
            node.labels["nvidia.com/gpu.product"] = f"NVIDIA-{model}"
            made.set_node(node)
    return made


POLICIES = {
    "mixed": Setting(policies(), Expected(EIGHTHS), ledger=ledger_of_mixed_cards),
    "default": Setting(policies(), Expected(EIGHTHS)),
    "quota": Setting(
        policies("quotas: {namespaces: {team: {slices: %d}, other: {slices: %d}}}" % (QUOTA, QUOTA)),  # noqa: UP031 braces are YAML's
        Expected(EIGHTHS),
    ),
    "reserve": Setting(policies("memory: {reserveMiB: 100}"), Expected(EIGHTHS, reserve_mib=100)),
    "assume": Setting(
        policies("assume: {gpusPerNode: 4, gpuMemoryMiB: 81920}"),
        Expected(EIGHTHS, assumed_mib=81920),
    ),
    "none": Setting(policies("limiter: none"), Expected(EIGHTHS, limiter=False)),
    "whole": Setting(
        policies('fractions: {"0.500": 4, "0.875": 7, "1.000": 8, "2": 16}'),
        Expected({"0.500": 4, "0.875": 7, "1.000": 8, "2": 16}),
    ),
}
INSTANCE_POLICIES = {
    f"{name}{'-quota' if quota else ''}": Setting(
        instances.policies_of(name, quota),
        Expected(EIGHTHS),
        faults_of_either,
        instances.ledger_of_instances,
        [*tampering.TAMPERS, *instances.TAMPERS],
    )
    for name in instances.KEYS
    for quota in ((0, QUOTA) if name in {"mig", "mig-first"} else (0,))
}
OTHER_UID = "another"
"""What the listed values put into a uid."""
EPOCH = 400
"""Reviews that share a ledger."""
MAX_REPLY = 2**20
"""Bytes."""


class FoundError(AssertionError):
    """A review of which something does not hold."""


@dataclass
class Tally:
    """What a campaign did."""

    reviews: int = 0
    decisions: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    largest_body: int = 0
    largest_reply: int = 0


class Campaign:
    """Sends reviews under one policy until an epoch ends."""

    def __init__(self, name: str, setting: Setting, dice: random.Random, tally: Tally) -> None:
        self._setting, self._expected = setting, setting.expected
        self._has_quota = name.endswith("quota")
        self._webhook = Webhook(setting.policies, setting.ledger(), again=False)
        self._dice = dice
        self._tally = tally
        self._bases = hostile.bases()
        self.last: dict[str, Any] = {}
        """The review that was sent last, to show what was found."""
        self._stored: list[dict[str, Any]] = []
        """Reviews of pods as they were let in."""
        self._held: Counter[tuple[str, str]] = Counter()
        """Slices by namespace and pod."""

    def step(self) -> None:
        """Make a review, send it, and check all that came of it."""
        review = self._make()
        body = as_body(review)
        decided = self._send(review)
        self._check_reply(review, decided)
        if not decided.allowed:
            self._check_denial(review, decided)
        elif decided.code in ("injected", "unchanged") and _is_asking_pod(review):
            self._check_pod(review, decided)
        elif decided.patch and review["request"].get("resource", {}).get("resource") != "jobs":
            raise FoundError(f"a patch for what is not ours: {decided.code}")
        self._tally.largest_body = max(self._tally.largest_body, len(body))

    def _make(self) -> dict[str, Any]:
        dice = self._dice
        known = self._stored if self._stored and dice.random() < 0.6 else self._bases
        review = json.loads(json.dumps(dice.choice(known)))  # a tenth of what deepcopy takes
        request = review["request"]
        request["namespace"], request["uid"] = dice.choice(NAMESPACES), f"{dice.getrandbits(128):032x}"
        request["dryRun"] = dice.random() < 0.3
        found = request["object"]
        if isinstance(found, dict) and isinstance(found.get("metadata"), dict) and dice.random() < 0.7:
            found["metadata"]["name"] = f"pod-{dice.getrandbits(40):x}"
        for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 5))):
            review = self._change(review)
        if review["request"]["uid"] == OTHER_UID:
            # An API server gives each request a uid of its own, and reservations have its name.
            review["request"]["uid"] = f"{dice.getrandbits(128):032x}"
        return review

    def _change(self, review: dict[str, Any]) -> dict[str, Any]:
        kind = self._dice.random()
        try:
            if kind < 0.6:
                dice = self._dice
                dice.choice(self._setting.tampers)(review["request"]["object"], dice)
            elif kind < 0.75:
                hostile.damage(review, self._dice)
            elif kind < 0.97:
                # A copy: what is listed shall not be changed by what comes next.
                return dict(json.loads(json.dumps(hostile.vary(review, self._dice))))
            else:
                hostile.enlarge(review, self._dice)
        except (TypeError, AttributeError, KeyError, IndexError, ValueError):
            pass  # what was damaged before has no such place any more
        return review

    def _send(self, review: dict[str, Any]) -> Decision:
        self._tally.reviews += 1
        self._tally.decisions += 1
        self.last = review
        decided = self._webhook.send(review)
        self._tally.codes[decided.code] += 1
        return decided

    def _check_reply(self, review: dict[str, Any], decided: Decision) -> None:
        response = decided.reply["response"]
        if response["uid"] != review["request"]["uid"]:
            raise FoundError("another uid")
        if decided.code == "internal-error":
            raise FoundError(decided.outcome.error)
        if "warnings" in response:
            raise FoundError("a warning")
        size = len(json.dumps(decided.reply))
        self._tally.largest_reply = max(self._tally.largest_reply, size)
        if size > MAX_REPLY:
            raise FoundError(f"a reply of {size} bytes")

    def _check_denial(self, review: dict[str, Any], decided: Decision) -> None:
        message = decided.message
        if len(message) > 200 or not message.isprintable():
            raise FoundError(f"denial {message!r}")
        if not _carries(review, LABEL) and not _carries(review, MEMORY_LABEL):
            raise FoundError(f"denied without a label: {message}")

    def _check_pod(self, review: dict[str, Any], decided: Decision) -> None:
        stored = decided.stored
        is_plain = _asks_for_a_plain_fraction(stored)
        found = list(self._setting.faults(stored, self._expected)) if is_plain else []
        if found:
            raise FoundError("; ".join(found))
        again = {**review, "request": {**review["request"], "object": stored}}
        second = self._send(again)
        if second.code == "pod-too-large":
            # At the bound our own part was too much.
            return
        if not second.allowed or second.patch:
            raise FoundError(f"a second review: {second.reply['response'].get('status')} {second.patch}")
        self._check_third(review, stored)
        if is_plain and not review["request"].get("dryRun"):
            self._count(review, stored)
        if len(self._stored) < 50:
            self._stored.append(again)
        else:
            self._stored[self._dice.randrange(50)] = again

    def _check_third(self, review: dict[str, Any], stored: dict[str, Any]) -> None:
        """Review a pod after a stranger's webhook: what that brought is all that is missing."""
        changed = after_a_stranger(stored)
        self._tally.decisions += 1
        outcome, patch = self._by_rules(review, changed)
        # A reservation matches once its pod, and the second review used it.
        is_used_up = outcome.reason.value == "over-quota" and self._has_quota
        if outcome.reason.value == "pod-too-large" or is_used_up:
            return
        if outcome.denial is not None or patch != missing(changed, outcome.policy):
            raise FoundError(f"a third review: {outcome.denial} {patch}")

    def _by_rules(self, review: dict[str, Any], found: dict[str, Any]) -> tuple[Outcome, Any]:
        return decide_again(self._setting.policies, self._webhook.ledger, review, found)

    def _count(self, review: dict[str, Any], stored: dict[str, Any]) -> None:
        name = stored["metadata"].get("name")
        namespace = review["request"].get("namespace")
        if isinstance(name, str) and isinstance(namespace, str):
            slices = self._expected.fractions[stored["metadata"]["labels"][LABEL]]
            self._held[namespace, name] = max(slices, self._held[namespace, name])

    def check_ledger(self) -> None:
        """Check what the ledger promised in all."""
        for node in self._webhook.ledger.view().nodes:
            for gpu in node.gpus:
                if gpu.used > gpu.capacity:
                    raise FoundError(f"{node.name} GPU {gpu.index}: {gpu.used} of {gpu.capacity} slices")
        if self._has_quota:
            for namespace in NAMESPACES:
                held = sum(slices for (each, _), slices in self._held.items() if each == namespace)
                if held > QUOTA:
                    raise FoundError(f"{namespace} holds {held} of a quota of {QUOTA}")


def _carries(review: dict[str, Any], label: str) -> bool:
    found = review["request"].get("object")
    metadata = found.get("metadata") if isinstance(found, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and label in labels


def _asks_for_a_plain_fraction(stored: dict[str, Any]) -> bool:
    """Whether a pod asks for a share of one GPU for one container, as the oracle knows it."""
    said = stored["metadata"].get("annotations") or {}
    others_of_ours = {"clearml-injector/gpus", "clearml-injector/containers", "clearml-injector/compute"}
    return LABEL in stored["metadata"]["labels"] and others_of_ours.isdisjoint(said)


def _is_asking_pod(review: dict[str, Any]) -> bool:
    request = review["request"]
    return (
        (_carries(review, LABEL) or _carries(review, MEMORY_LABEL))
        and request.get("operation") == "CREATE"
        and request.get("resource", {}).get("resource") == "pods"
        and not request.get("subResource")
    )


@dataclass(frozen=True)
class Finding:
    """Something that does not hold, and the review that shows it."""

    text: str
    review: dict[str, Any]


def run(
    reviews: int, seed: int, most_findings: int = 20, settings: Mapping[str, Setting] = POLICIES
) -> tuple[Tally, list[Finding]]:
    """Send so many reviews, each epoch under another policy; give what was counted and what was found."""
    tally, findings = Tally(), []
    epoch = 0
    while tally.reviews < reviews and len(findings) < most_findings:
        dice = random.Random(f"{seed}-{epoch}")  # noqa: S311 repeatable, no secret
        name = list(settings)[epoch % len(settings)]
        campaign = Campaign(name, settings[name], dice, tally)
        try:
            for _ in range(EPOCH):
                campaign.step()
            campaign.check_ledger()
        except Exception as error:  # noqa: BLE001 whatever breaks is a finding
            text = f"epoch {epoch}, policy {name}: {type(error).__name__}: {str(error)[:2000]}"
            findings.append(Finding(text, campaign.last))
        epoch += 1
    return tally, findings


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reviews", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="folder for the reviews that show findings")
    given = parser.parse_args()
    start = time.process_time()
    tally, findings = run(given.reviews, given.seed, settings=POLICIES | INSTANCE_POLICIES)
    seconds = time.process_time() - start
    lines = [
        f"{tally.reviews} reviews, {tally.decisions} decisions in {seconds:.0f} s of CPU",
        f"largest body {tally.largest_body} bytes, largest reply {tally.largest_reply} bytes",
        *(f"  {code:28} {count}" for code, count in tally.codes.most_common()),
        *(f"FOUND {finding.text}" for finding in findings),
    ]
    for number, finding in enumerate(findings if given.save else []):
        given.save.mkdir(parents=True, exist_ok=True)
        (given.save / f"finding-{number}.json").write_text(json.dumps(finding.review))
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
