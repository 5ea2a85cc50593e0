"""Common parts of the translation from any other system: amounts as our labels, and the patch operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from webhook.admission.annotations import INJECTED
from webhook.admission.denial import cut_text
from webhook.admission.json_patch import Operation, add, pointer, remove
from webhook.admission.pod import MEMORY_LABEL, ObjectMeta, Pod, PodSpec

MAX_CHARACTERS = 12
"""Maximum characters of an amount in a denial."""
MIB = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
Label = tuple[str, str]
"""One of our labels, and its value."""


class Alias(msgspec.Struct, frozen=True, eq=False):
    """A pod whose request for another GPU system was translated into ours."""

    pod: Pod
    operations: list[Operation]
    """Changes of the original pod into this one; the share's own patch follows."""
    words: str
    """Description of the translation, for users."""


class System(NamedTuple):
    """Another system whose syntax policies can accept."""

    asks: Callable[[ObjectMeta, PodSpec], bool]
    """Whether a pod uses the syntax."""
    read: Callable[[ObjectMeta, PodSpec, EffectivePolicy], Alias]
    """Translates such a pod, or raises AliasError."""
    misplaced: Callable[[ObjectMeta], str | None]
    """Returns why amounts that are labels, or annotations where these are none, are refused."""


class AliasError(ValueError):
    """A pod has a setting that has no equivalent here; the text is its denial."""


def misplaced_amount(
    places: Mapping[str, Collection[str] | None], names: Sequence[str], where: str
) -> str | None:
    """Return the denial of an amount in a place, such as "label", in which the other system does not look."""
    found = [(kind, name) for kind, keys in places.items() for name in names if name in (keys or ())]
    return "{} {} has no effect: write it {}".format(*found[0], where) if found else None


def shown(text: str) -> str:
    """Return a text of the pod, shortened and quoted for a denial."""
    return f'"{cut_text(text, MAX_CHARACTERS)}"'


def memory_label(what: str, text: str) -> Label:
    """Return our label for an amount of MiB, or raise AliasError."""
    if MIB.fullmatch(text) is None:
        raise AliasError(f'{what} {shown(text)} is not a whole number of MiB: use a value such as "4096"')
    return MEMORY_LABEL, f"{text}Mi"


def known_text(text: str, policy: EffectivePolicy) -> str | None:
    """Return the policy's fraction for a decimal; None if it has none."""
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
    """Replace their annotations by our label and annotations; also remove a forged marker of ours."""
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
    """Describe the translation of an amount."""
    name, text = label
    return f'{amount} is {name} "{text}"'
