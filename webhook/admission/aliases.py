"""Translates pods in the syntax of other systems, if a policy accepts it: KAI (Run:ai) and HAMi.

Such a pod has none of our labels. It becomes the pod that its author would have written for us, and the rules
decide that pod: they do not know other systems.
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
"""Annotations and resources of other systems that ours replace."""
_SPELLED = re.compile(rb"\\(?:/|u00[267])")
"""Escapes with which JSON can write a character of these words."""


def read_alias(pod: Pod, policy: EffectivePolicy) -> Alias | Denial | None:
    """Return a translated unlabelled pod; None if it uses no syntax that the policy accepts."""
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None:
        return None
    if "kai" in policy.aliases and asks_in_kais_words(metadata):
        return of_kai(pod, metadata, policy)
    if "hami" in policy.aliases and asks_in_hamis_words(spec):
        return of_hami(metadata, spec, policy)
    return None


def asks_in_other_words(pod: Pod) -> bool:
    """Whether an unlabelled pod uses syntax that a policy may accept."""
    metadata, spec = pod.metadata, pod.spec
    is_kais = metadata is not None and asks_in_kais_words(metadata)
    return is_kais or (spec is not None and asks_in_hamis_words(spec))


def is_surely_without_aliases(body: bytes) -> bool:
    """Whether a review contains none of these words, and no escape that could spell one."""
    return not any(word in body for word in _QUOTED) and _SPELLED.search(body) is None
