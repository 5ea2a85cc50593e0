"""Translates pods in the syntax of other systems, if a policy accepts it: KAI (Run:ai) and HAMi.

Such a pod has none of our labels. It becomes the pod that its author would have written for us, and the rules
decide that pod: they do not know other systems.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from policies.model.effective import EffectivePolicy
from webhook.admission.alias_of_hami import HAMI
from webhook.admission.alias_of_kai import KAI
from webhook.admission.alias_words import Alias, AliasError, System
from webhook.admission.denial import Denial, Reason
from webhook.admission.json_patch import add
from webhook.admission.pod import ObjectMeta, Pod, PodSpec

SCHEDULERS = frozenset({"kai-scheduler", "runai-scheduler", "hami-scheduler"})
"""Their schedulers, which place no pod that requests what ours do."""
DEFAULT_SCHEDULER = "default-scheduler"
"""Kubernetes' own, which a pod without a name gets."""
SYSTEMS: Mapping[str, System] = {"kai": KAI, "hami": HAMI}
"""By the key that enables each in a policy's `aliases`. If a pod uses several, the first one counts."""


def read_alias(pod: Pod, policy: EffectivePolicy) -> Alias | Denial | None:
    """Return a translated unlabelled pod; None if it uses no syntax that the policy accepts."""
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None:
        return None
    accepted = [each for name, each in SYSTEMS.items() if name in policy.aliases]
    system = next((each for each in accepted if _asks(each, pod)), None)
    if system is None:
        return None
    refused = system.misplaced(metadata)
    if refused is None:
        try:
            return _for_our_scheduler(system.read(metadata, spec, policy), policy)
        except AliasError as error:
            refused = str(error)
    return Denial.of(Reason.ALIAS, refused)


def _for_our_scheduler(alias: Alias, policy: EffectivePolicy) -> Alias:
    """Refuse or replace the name of another system's scheduler: the pod would wait for it for ever."""
    name = alias.pod.spec.scheduler_name if alias.pod.spec is not None else None
    if name not in SCHEDULERS:
        return alias
    if policy.other_scheduler == "deny":
        advice = "remove it, or ask the admin to set aliases.schedulerName: remove"
        raise AliasError(f"schedulerName {name} does not place pods that ask for shares here: {advice}")
    operations = [*alias.operations, add("/spec/schedulerName", DEFAULT_SCHEDULER)]
    words = f"{alias.words}; schedulerName {name} is removed"
    return msgspec.structs.replace(alias, operations=operations, words=words)


def asks_in_other_words(pod: Pod) -> bool:
    """Whether an unlabelled pod uses syntax that a policy may accept."""
    return any(_asks(each, pod) for each in SYSTEMS.values())


def _asks(system: System, pod: Pod) -> bool:
    metadata, spec = pod.metadata or ObjectMeta(), pod.spec or PodSpec()
    return system.asks(metadata, spec) or system.misplaced(metadata) is not None
