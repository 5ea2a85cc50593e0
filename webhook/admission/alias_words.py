"""What rewriting has in common, whatever the other system: amounts as our labels, and the operations."""

from __future__ import annotations

import re

import msgspec

from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import label_advice
from webhook.admission.annotations import INJECTED
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.json_patch import Operation, add, pointer, remove
from webhook.admission.pod import LABEL, MEMORY_LABEL, ObjectMeta, Pod

MAX_CHARACTERS = 12
"""Of an amount; a denial repeats no more."""
MIB = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
Label = tuple[str, str]
"""One of our labels, and its text."""


class Alias(msgspec.Struct, frozen=True, eq=False):
    """A pod in our words."""

    pod: Pod
    operations: list[Operation]
    """What makes this pod of the one that came; the share's own patch follows."""
    words: str
    """What was rewritten to what, for people."""


def denied(rule: str) -> Denial:
    """Deny what has no match here."""
    return Denial.of(Reason.ALIAS, rule)


def shown(text: str) -> str:
    """Return a text of the pod as a denial quotes it."""
    return f'"{cut_text(text, MAX_CHARACTERS)}"'


def memory_label(what: str, text: str) -> Label | Denial:
    """Return our label for so many MiB."""
    if MIB.fullmatch(text) is None:
        return denied(f'{what} {shown(text)} is no whole number of MiB: write it such as "4096"')
    return MEMORY_LABEL, f"{text}Mi"


def fraction_label(what: str, text: str, policy: EffectivePolicy) -> Label | Denial:
    """Return our label with the text of the policy's table that means the same amount.

    Args:
        what: the other system's name for it.
        text: the amount as a decimal.
        policy: of the pod.
    """
    known = known_text(text, policy)
    if known is not None:
        return LABEL, known
    advice = label_advice(text[:MAX_CHARACTERS], policy)
    advice = advice or f"policy {policy.name} allows no fraction: ask the admin"
    return denied(f"{what} {shown(text)} is no fraction of policy {policy.name}: {advice}")


def known_text(text: str, policy: EffectivePolicy) -> str | None:
    """Return the text of the policy's table for a decimal's amount; None where it has none."""
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        amount = Fraction.rounded_up(text, policy.slices_per_gpu)
    except ValueError:
        return None
    return next((each for each, fraction in policy.fractions.items() if fraction == amount), None)


def rewritten(
    metadata: ObjectMeta, label: Label, ours: dict[str, str | None], theirs: list[str]
) -> tuple[ObjectMeta, list[Operation]]:
    """Write our label and annotations in place of theirs; a forged marker of ours goes too."""
    labels, annotations = metadata.labels, metadata.annotations
    stale = [*theirs, *([INJECTED] if INJECTED in (annotations or ()) else [])]
    added = {name: text for name, text in ours.items() if text is not None}
    kept = {name: text for name, text in (annotations or {}).items() if name not in stale}
    name, text = label
    operations = [remove("/metadata/annotations" + pointer(each)) for each in stale]
    if labels is None:
        operations.append(add("/metadata/labels", {name: text}))
    else:
        operations.append(add("/metadata/labels" + pointer(name), text))
    if added and annotations is None:
        operations.append(add("/metadata/annotations", added))
    elif added:
        operations += [add("/metadata/annotations" + pointer(each), added[each]) for each in added]
    changed = msgspec.structs.replace(
        metadata,
        labels={**(labels or {}), name: text},
        annotations=None if annotations is None and not added else {**kept, **added},
    )
    return changed, operations


def words_of(amount: str, label: Label) -> str:
    """Say what became of an amount."""
    name, text = label
    return f'{amount} is {name} "{text}"'
