"""Translates pods in the syntax of other systems, if a policy accepts it: KAI (Run:ai) and HAMi.

Such a pod has none of our labels. It becomes the pod that its author would have written for us, and the rules
decide that pod: they do not know other systems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from policies.model.effective import EffectivePolicy
from webhook.admission.alias_of_hami import HAMI
from webhook.admission.alias_of_kai import KAI
from webhook.admission.alias_words import Alias, System
from webhook.admission.denial import Denial
from webhook.admission.pod import ObjectMeta, Pod, PodSpec

SYSTEMS: Mapping[str, System] = {
    "kai": KAI,
    "hami": HAMI,
}
"""By the key that enables each in a policy's `aliases`. If a pod uses several, the first one counts."""
_QUOTED = tuple(
    [
        (f'"{name}' if name.endswith(".") else f'"{name}"').encode()
        for each in SYSTEMS.values()
        for name in each.words
    ]
)
_SPELLED = re.compile(rb"\\(?:/|u00[267])")
"""Escapes with which JSON can write a character of these words."""


def read_alias(pod: Pod, policy: EffectivePolicy) -> Alias | Denial | None:
    """Return a translated unlabelled pod; None if it uses no syntax that the policy accepts."""
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None:
        return None
    accepted = [each for name, each in SYSTEMS.items() if name in policy.aliases]
    system = next((each for each in accepted if each.asks(metadata, spec)), None)
    return system.read(metadata, spec, policy) if system is not None else None


def asks_in_other_words(pod: Pod) -> bool:
    """Whether an unlabelled pod uses syntax that a policy may accept."""
    metadata, spec = pod.metadata or ObjectMeta(), pod.spec or PodSpec()
    return any(each.asks(metadata, spec) for each in SYSTEMS.values())


def is_surely_without_aliases(body: bytes) -> bool:
    """Whether a review contains none of these words, and no escape that could spell one."""
    return not any(word in body for word in _QUOTED) and _SPELLED.search(body) is None
