"""HAMi's annotations about cards: what is the same here is taken, all else is denied by name.

A blank list of cards demands nothing with HAMi, and a blank mode none of its cards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kube.names import GPU_MODEL_ANNOTATION
from modes.gpu_kinds import MAX_PATTERNS, MAX_TEXT, KindProblem, read_gpu_kinds
from policies.model.effective import EffectivePolicy
from webhook.admission.alias_words import denied, shown
from webhook.admission.denial import Denial
from webhook.admission.other_systems import (
    HAMI_GPU_POLICY,
    HAMI_MODE,
    HAMI_NO_TYPE,
    HAMI_NO_UUID,
    HAMI_NODE_POLICY,
    HAMI_NUMA,
    HAMI_USE_TYPE,
    HAMI_USE_UUID,
)

_VENDOR = "NVIDIA"
"""Begins every type as HAMi has it: "NVIDIA-NVIDIA A100-SXM4-80GB"."""
_PLACES = {"pack": "binpack", "spread": "spread"}
"""How a policy places, and HAMi's word for it."""
_TRUE = {"1", "t", "true"}
_NO_CHOICE = "has no match here, no pod chooses its card: leave it out"


def hami_models(theirs: Mapping[str, str], policy: EffectivePolicy) -> dict[str, str] | Denial:
    """Return our annotation for the types of cards that a pod takes, empty where it takes all."""
    return _refused(theirs, policy) or _models(theirs.get(HAMI_USE_TYPE, ""))


def _refused(theirs: Mapping[str, str], policy: EffectivePolicy) -> Denial | None:
    advice = f"has no match here: write the types that it takes in {HAMI_USE_TYPE}"
    for name, rule in ((HAMI_NO_TYPE, advice), (HAMI_USE_UUID, _NO_CHOICE), (HAMI_NO_UUID, _NO_CHOICE)):
        if theirs.get(name, "").strip():
            return denied(f"{name} {rule}")
    if theirs.get(HAMI_NUMA, "").lower() in _TRUE:
        return denied(f"{HAMI_NUMA} has no match here: leave it out")
    for name in (HAMI_NODE_POLICY, HAMI_GPU_POLICY):
        text = theirs.get(name, "").strip()
        if text and text != _PLACES[policy.demands.place]:
            rule = f"is not how policy {policy.name} places: leave it out, or ask the admin"
            return denied(f"{name} {shown(text)} {rule}")
    return _refused_mode(theirs.get(HAMI_MODE), policy)


def _refused_mode(text: str | None, policy: EffectivePolicy) -> Denial | None:
    """Refuse modes among which one is missing that the policy may give."""
    gives = [] if policy.mode.gives_instances else ["hami-core"]
    if policy.instance_mode is not None:
        gives.append("mig")
    if text is None or all(mode in text for mode in gives):
        return None
    given = f"policy {policy.name} gives {' or '.join(gives)}"
    return denied(f"{HAMI_MODE} {shown(text)}: {given}: leave it out, or ask the admin")


def _models(text: str) -> dict[str, str] | Denial:
    """Return patterns for types of which each is a part of a card's name, in whatever case."""
    types = [each.strip() for each in text.split(",")] if len(text) <= MAX_TEXT else []
    if not text.strip() or any(each.upper() == _VENDOR for each in types):
        return {}
    patterns = {GPU_MODEL_ANNOTATION: ",".join([_pattern(each) for each in types if each])}
    if isinstance(read_gpu_kinds(patterns), KindProblem):
        return denied(f"{HAMI_USE_TYPE} {shown(text)} names no 1 to {MAX_PATTERNS} types of cards: mend it")
    return patterns


def _pattern(name: str) -> str:
    """Return the pattern of a part of a card's name; its words are apart by blanks there, by hyphens here."""
    if name.upper().startswith(f"{_VENDOR}-{_VENDOR}"):
        name = name[len(_VENDOR) + 1 :]
    return "*" + "-".join(re.split(r"[\s-]+", name)) + "*"
