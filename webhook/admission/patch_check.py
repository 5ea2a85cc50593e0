"""Checks a patch before it is sent: applied to its pod, it must result in a pod with exactly its share.

The checks use code that reads pods, never code that writes patches. Then the pod is reviewed again, as an API
server would: nothing must be left to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ledger.placement_request import Placement
from policies.model.effective import EffectivePolicy
from policies.model.reserved import is_reserved
from webhook.admission.affinity import binds_node
from webhook.admission.aliases import REWRITTEN
from webhook.admission.annotations import INJECTED, OUTPUTS
from webhook.admission.denial import Denial, Reason
from webhook.admission.environment import HIDDEN, PRELOAD
from webhook.admission.gpu_kinds import gpu_kinds
from webhook.admission.limiter import is_in_place
from webhook.admission.mutate import annotations_of, as_placed, mutate
from webhook.admission.patched import UnsoundPatchError, apply_patch, rule_of
from webhook.admission.pod import ObjectMeta, Pod, PodSpec
from webhook.admission.share import ContainerShare, PodShare, share_of
from webhook.admission.share_claim import has_claim
from webhook.admission.validate import Validated, validate

_decode = msgspec.json.Decoder().decode


def check_patch(
    found: dict[str, Any], patch: bytes, namespace: str, policy: EffectivePolicy, placement: Placement
) -> None:
    """Apply a patch to its decoded pod, in place, and check the result.

    Raises:
        UnsoundPatchError: the patched pod does not match its placement.
    """
    others = REWRITTEN if policy.aliases else ()
    apply_patch(found, _decode(patch) if patch else [], policy.mode.kinds, others)
    pod = msgspec.convert(found, Pod)
    validated = validate(pod, namespace, policy, lambda: found)
    if isinstance(validated, Denial) and validated.reason is Reason.TOO_LARGE:
        # With our part it exceeds a limit: a second review denies it with the reason.
        return
    if isinstance(validated, Denial):
        rule = _missing(pod, placement)
        raise UnsoundPatchError(f"{rule}: a second review denies it ({validated.reason.value})")
    placed = as_placed(validated, placement)
    if placed is None:
        raise UnsoundPatchError("memory_limit: the share is too small")
    for rule, holds in _findings(placed, placement):
        if not holds:
            raise UnsoundPatchError(f"{rule}: the patched pod lacks a part of its share")
    _review_again(validated, placement)


def _missing(pod: Pod, placement: Placement) -> str:
    """Return the rule whose missing part would make a second review treat the pod as new."""
    metadata, spec = pod.metadata or ObjectMeta(), pod.spec or PodSpec()
    kinds = gpu_kinds(metadata)
    if INJECTED not in (metadata.annotations or {}) or isinstance(kinds, Denial):
        return "annotations"
    return "validate" if binds_node(spec, placement, kinds) else "affinity"


def _review_again(validated: Validated, placement: Placement) -> None:
    kept = validated.kept
    if kept is None:
        raise UnsoundPatchError("reinvocation: a second review does not find its placement")
    known = msgspec.structs.replace(
        kept,
        reservation=placement.reservation,
        other_memory_values=placement.other_memory_values,
        memory_values=placement.memory_values,
    )
    again = mutate(validated, known)
    if isinstance(again, Denial):
        raise UnsoundPatchError(f"mutate: a second review denies it ({again.reason.value})")
    if again.patch:
        rule = rule_of(_decode(again.patch)[0]["path"])
        raise UnsoundPatchError(f"{rule}: a second review changes it once more")


def _findings(validated: Validated, placement: Placement) -> Iterator[tuple[str, bool]]:
    """Yield each rule, and whether the pod has everything that it writes."""
    share = share_of(validated, placement)
    yield "annotations", _has_annotations(validated, share, placement.reservation)
    for ref in validated.containers.gpu:
        own, resources = share.of(ref), ref.container.resources
        for amounts in (resources.limits, resources.requests) if resources is not None else ({},):
            asked = {name: str(amount) for name, amount in (amounts or {}).items()}
            yield "gpu_resources", own.amounts.items() <= asked.items()
        yield "environment", _has_variables(validated, own, ref.container.name, _variables(ref.container.env))
    for ref in validated.containers.others:
        yield "gpu_resources", not ref.asks_for_gpu
        hidden = {name: _variables(ref.container.env).get(name) for name in HIDDEN}
        is_hidden = hidden == {name: [value] for name, value in HIDDEN.items()}
        yield "environment", is_hidden or not validated.policy.hide_gpus_from_others
    limiter, spec, policy = validated.limiter, validated.spec, validated.policy
    yield "limiter", is_in_place(validated.containers.gpu, limiter, validated.existing_injection)
    yield "affinity", binds_node(spec, placement, validated.kinds_of_node)
    yield "share_claim", has_claim(validated, placement)
    yield "quota_gate", validated.is_gated or not placement.waits_for_quota
    yield "mutate", bool(spec.host_pid) or not limiter.host_pid
    yield "mutate", spec.runtime_class_name is not None or policy.runtime_class_name is None
    yield "mutate", len(spec.tolerations or ()) >= len(policy.tolerations)


def _has_annotations(validated: Validated, share: PodShare, reservation: str | None) -> bool:
    found = validated.metadata.annotations or {}
    wanted = annotations_of(share, validated.containers.names, reservation)
    return {name: found[name] for name in OUTPUTS if name in found} == wanted


def _has_variables(
    validated: Validated, own: ContainerShare, container: str, found: dict[str, list[str | None]]
) -> bool:
    """Whether each of our variables exists once, no other reserved one exists, and the library is first."""
    wanted, preload = own.env.of(container), validated.limiter.preload
    if any(found.get(name) != [value] for name, value in wanted.items()):
        return False
    if any(is_reserved(name) and name not in wanted for name in found):
        return False
    loaded = found.get(PRELOAD, [])
    return preload is None or (len(loaded) == 1 and (loaded[0] or "").startswith(preload))


def _variables(env: Any) -> dict[str, list[str | None]]:
    """Return the values of each variable of a container; None for one from a reference."""
    found: dict[str, list[str | None]] = {}
    for entry in env or ():
        found.setdefault(entry.name, []).append(None if entry.value_from is not None else entry.value or "")
    return found
