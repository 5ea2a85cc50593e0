"""Other systems' ways to ask for a share, where a policy takes them for ours: KAI's (Run:ai's) and HAMi's.

Such a pod carries no label of ours. It is rewritten to what its author would have written here, and decided
as that pod: the rules know nothing of other systems.
"""

from __future__ import annotations

import re

from policies.model.effective import EffectivePolicy
from webhook.admission.alias_of_hami import HAMI_RESOURCES, asks_in_hamis_words, of_hami
from webhook.admission.alias_of_kai import asks_in_kais_words, of_kai
from webhook.admission.alias_words import Alias
from webhook.admission.denial import Denial
from webhook.admission.other_systems import HAMI_ANNOTATIONS, KAI_AMOUNTS, KAI_CONTAINER, KAI_GPUS
from webhook.admission.pod import Pod

_QUOTED = tuple(f'"{name}"'.encode() for name in (*KAI_AMOUNTS, *HAMI_RESOURCES))
REWRITTEN = frozenset((*KAI_AMOUNTS, KAI_GPUS, KAI_CONTAINER, *HAMI_ANNOTATIONS, *HAMI_RESOURCES))
"""Annotations and resources of other systems that are taken away, as ours stand in their place."""
_SPELLED = re.compile(rb"\\(?:/|u00[267])")
"""How JSON can write a character of these words otherwise."""


def read_alias(pod: Pod, policy: EffectivePolicy) -> Alias | Denial | None:
    """Return an unlabelled pod in our words; None where it asks in no words that the policy takes."""
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None:
        return None
    if "kai" in policy.aliases and asks_in_kais_words(metadata):
        return of_kai(pod, metadata, policy)
    if "hami" in policy.aliases and asks_in_hamis_words(spec):
        return of_hami(metadata, spec, policy)
    return None


def asks_in_other_words(pod: Pod) -> bool:
    """Whether some policy might take a pod without our labels for one of ours."""
    metadata, spec = pod.metadata, pod.spec
    is_kais = metadata is not None and asks_in_kais_words(metadata)
    return is_kais or (spec is not None and asks_in_hamis_words(spec))


def is_surely_without_aliases(body: bytes) -> bool:
    """Whether none of these words stands in a review, nor any escape that could spell one."""
    return not any(word in body for word in _QUOTED) and _SPELLED.search(body) is None
