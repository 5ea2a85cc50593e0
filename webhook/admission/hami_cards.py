"""HAMi's annotations about cards: accepted if there is an equivalent here, else denied by name.

For HAMi, an empty list of cards or an empty mode requires nothing.
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
"""Prefix of every type in HAMi: "NVIDIA-NVIDIA A100-SXM4-80GB"."""
_PLACES = {"pack": "binpack", "spread": "spread"}
"""A policy's placement, and HAMi's word for it."""
_TRUE = {"1", "t", "true"}
_NO_CHOICE = "is not supported, since pods cannot choose their card: remove it"


def hami_models(theirs: Mapping[str, str], policy: EffectivePolicy) -> dict[str, str] | Denial:
    """Return our annotation for the card types that a pod accepts; empty if it accepts all."""
    return _refused(theirs, policy) or _models(theirs.get(HAMI_USE_TYPE, ""))


def _refused(theirs: Mapping[str, str], policy: EffectivePolicy) -> Denial | None:
    advice = f"is not supported: list the accepted types in {HAMI_USE_TYPE}"
    for name, rule in ((HAMI_NO_TYPE, advice), (HAMI_USE_UUID, _NO_CHOICE), (HAMI_NO_UUID, _NO_CHOICE)):
        if theirs.get(name, "").strip():
            return denied(f"{name} {rule}")
    if theirs.get(HAMI_NUMA, "").lower() in _TRUE:
        return denied(f"{HAMI_NUMA} is not supported: remove it")
    for name in (HAMI_NODE_POLICY, HAMI_GPU_POLICY):
        text = theirs.get(name, "").strip()
        if text and text != _PLACES[policy.demands.place]:
            rule = f"differs from the placement of policy {policy.name}: remove it, or ask the admin"
            return denied(f"{name} {shown(text)} {rule}")
    return _refused_mode(theirs.get(HAMI_MODE), policy)


def _refused_mode(text: str | None, policy: EffectivePolicy) -> Denial | None:
    """Refuse a list of modes that lacks one that the policy may use."""
    gives = [] if policy.mode.gives_instances else ["hami-core"]
    if policy.instance_mode is not None:
        gives.append("mig")
    if text is None or all(mode in text for mode in gives):
        return None
    given = f"policy {policy.name} provides {' or '.join(gives)}"
    return denied(f"{HAMI_MODE} {shown(text)}: {given}: remove it, or ask the admin")


def _models(text: str) -> dict[str, str] | Denial:
    """Return patterns for types, each a part of a card's name, in upper or lower case."""
    types = [each.strip() for each in text.split(",")] if len(text) <= MAX_TEXT else []
    if not text.strip() or any(each.upper() == _VENDOR for each in types):
        return {}
    patterns = {GPU_MODEL_ANNOTATION: ",".join([_pattern(each) for each in types if each])}
    if isinstance(read_gpu_kinds(patterns), KindProblem):
        return denied(
            f"{HAMI_USE_TYPE} {shown(text)} does not list 1 to {MAX_PATTERNS} types of cards: fix it"
        )
    return patterns


def _pattern(name: str) -> str:
    """Return the pattern for a part of a card's name. HAMi separates its words by spaces, we by hyphens."""
    if name.upper().startswith(f"{_VENDOR}-{_VENDOR}"):
        name = name[len(_VENDOR) + 1 :]
    return "*" + "-".join(re.split(r"[\s-]+", name)) + "*"
