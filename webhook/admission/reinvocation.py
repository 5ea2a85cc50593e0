"""Reinvocation: a pod that is reviewed again keeps its index only if all its injected fields match."""

from __future__ import annotations

from collections import Counter

import msgspec

from kube.names import is_uid, label_number
from ledger.placement_request import Placement
from modes.fraction import Fraction
from modes.gpu_kinds import EVERY_KIND
from modes.mode import Mode
from policies.model.effective import EffectivePolicy
from webhook.admission.affinity import demanded_hosts, demanded_memories, demands_models, required_terms
from webhook.admission.annotations import (
    GPU_CONTAINER,
    GPU_INDEX,
    INJECTED,
    MEMORY_MIB,
    RESERVATION,
    SLICES,
    numbers_text,
)
from webhook.admission.container_refs import ContainerRef
from webhook.admission.instances import KnownCards, kept_instance
from webhook.admission.kept_claim import has_claim, kept_claim
from webhook.admission.pod import PodSpec
from webhook.admission.validated import Validated

MAX_MEMORY_VALUES = 1000
"""Maximum values in one expression; each term of the affinity may get them all."""


def with_kept(validated: Validated, mig_cards: KnownCards) -> Validated:
    """Return the pod with the share and the placement that an earlier review gave it, if they are valid."""
    if INJECTED not in validated.said:
        return validated
    if has_claim(validated):
        return msgspec.structs.replace(validated, kept=_kept_placement(validated, mig_cards))
    if not validated.mode.is_claimed:
        validated = msgspec.structs.replace(validated, fraction=_sized_as_said(validated))
    kinds = validated.kinds
    kept = _kept_placement(validated, mig_cards) if demands_models(validated.spec, kinds) else None
    if kept is None or (kept.memory_values and all(int(mib) < kinds.min_mib for mib in kept.memory_values)):
        return validated
    if kinds != EVERY_KIND and kept.instance is None:
        kept = msgspec.structs.replace(kept, hosts=demanded_hosts(validated.spec))
    fraction = validated.fraction.apart() if kept.containers else validated.fraction
    return msgspec.structs.replace(validated, fraction=fraction, kept=kept)


def _kept_placement(validated: Validated, mig_cards: KnownCards) -> Placement | None:
    """Return the pod's placement from an earlier review; None if it has no valid one.

    A marker is not enough: resource names and amounts, slices, index, container, and the memory in the node
    affinity must match each other and the policy (docs/reference/admission.md).
    """
    said, policy, containers = validated.said, validated.policy, validated.containers
    if said[INJECTED].partition("@")[0] != policy.name or said.get(GPU_CONTAINER) != containers.names:
        return None
    kept, is_claimed = None, has_claim(validated)
    if is_claimed:
        kept = kept_claim(validated)
    elif not (policy.mode.is_claimed or policy.mode.gives_instances):
        kept = _kept_slices(validated)
    # An instance is for one container, and says neither index nor MiB.
    is_instance = not (is_claimed or containers.parts or GPU_INDEX in said or MEMORY_MIB in said)
    if kept is None and policy.instance_mode is not None and is_instance:
        kept = kept_instance(validated, policy.instance_mode, mig_cards)
    reservation = said.get(RESERVATION)
    if kept is None or reservation is None or not is_uid(reservation):
        return kept
    return msgspec.structs.replace(kept, reservation=reservation)


def _kept_slices(validated: Validated) -> Placement | None:
    said, fraction, containers = validated.said, validated.fraction, validated.containers
    placed = _read_gpus(said.get(GPU_INDEX), validated.policy, fraction)
    if placed is None or said.get(SLICES) != str(fraction.slices):
        return None
    for ref in containers.gpu:
        if not _asks_exactly(ref, validated.mode, *containers.share_of(ref, fraction, placed)):
            return None
    memory = _memory(validated)
    if memory is None:
        return None
    gpu_mib, values = memory
    return msgspec.structs.replace(
        placed, gpu_mib=gpu_mib, memory_values=values, slices=fraction.slices_of_mib
    )


def _read_gpus(text: str | None, policy: EffectivePolicy, fraction: Fraction) -> Placement | None:
    """Return the GPUs of an earlier placement from its annotation; None if it is invalid."""
    mode, containers = policy.mode, fraction.containers
    indices = None if fraction.is_apart else mode.read_indices(text, fraction)
    if indices is not None:
        return Placement(indices, 0, ())
    each = (text or "").split(",", containers)
    if policy.containers == "same-gpu" or containers < 2 or len(each) != containers:  # noqa: PLR2004  one cannot part
        return None
    found = [mode.read_indices(one, fraction.part(0)) for one in each]
    on = [one[0] for one in found if one]
    if len(on) < containers or len(set(on)) == 1:
        return None
    return Placement(tuple(sorted(set(on))), 0, (), containers=tuple(on))


def keeps_assumption(validated: Validated) -> bool:
    """Whether only the policy's `assume` may confirm the pod's memory annotation.

    Only the ledger can decide that: the author's own terms may contain the same MiB by chance, and our
    requirement may be missing in a term that was added later.
    """
    kept, assume, spec = validated.kept, validated.policy.demands.assume, validated.spec
    if kept is None or kept.instance is not None or not _binds_memory(validated):
        return False
    if not kept.memory_values:
        return True
    if assume is None or not _comes_to(validated, assume.gpu_mib):
        return False
    terms = [term for term in required_terms(spec) or () if not term.is_empty]
    return sum(values == kept.memory_values for values in demanded_memories(spec)) < len(terms)


def _sized_as_said(validated: Validated) -> Fraction:
    """Return a request for MiB with the slices that an earlier review gave it for the GPU it chose."""
    fraction, said, policy = validated.fraction, validated.said, validated.policy
    if not fraction.mib:
        return fraction
    if not validated.containers.parts:
        return fraction.with_slices(label_number(said.get(SLICES)) or 0)
    is_apart = policy.containers == "any-gpu" and "," in said.get(GPU_INDEX, "")
    whole = fraction.apart() if is_apart else fraction
    cards = [label_number(values[0]) for values in demanded_memories(validated.spec) if values]
    if policy.demands.assume is not None:
        cards.append(policy.demands.assume.gpu_mib)
    for sized in [whole.on_card(mib) for mib in cards if mib]:
        if sized is not None and said.get(SLICES) == str(sized.slices):
            return sized
    return fraction


def _asks_exactly(ref: ContainerRef, mode: Mode, fraction: Fraction, indices: tuple[int, ...]) -> bool:
    resources = ref.container.resources
    wanted = mode.amounts(fraction, indices)
    for amounts in (resources.limits, resources.requests) if resources is not None else ({},):
        found = amounts or {}
        if any(name not in wanted and _is_another(mode, name, amount) for name, amount in found.items()):
            return False
        if any(str(found.get(name)) != amount for name, amount in wanted.items()):
            return False
    return True


def _is_another(mode: Mode, resource: str, amount: str | int) -> bool:
    """Whether a container has another GPU or MIG instance besides its share; amounts of 0 do not count."""
    kind = mode.kinds[resource]
    return kind is not None and (kind.is_index or (kind.is_instance and str(amount) != "0"))


def _memory(validated: Validated) -> tuple[int, tuple[str, ...]] | None:
    """Return MiB of one GPU and the label values to which the pod is bound, if they match its annotation."""
    if not _binds_memory(validated):
        return None if MEMORY_MIB in validated.said else (0, ())
    for values in _by_terms(validated.spec):
        if all(_comes_to(validated, label_number(value)) for value in values):
            return int(values[0]), values
    assumed = validated.policy.demands.assume
    if assumed is not None and _comes_to(validated, assumed.gpu_mib):
        return assumed.gpu_mib, ()
    return None


def _by_terms(spec: PodSpec) -> list[tuple[str, ...]]:
    """Return the sets of memory values in required terms, the most frequent first.

    Ours is in every term, after the author's own: if two are equally frequent, the last one comes first.
    """
    terms: Counter[tuple[str, ...]] = Counter()
    for values in demanded_memories(spec):
        if 1 <= len(values) <= MAX_MEMORY_VALUES:
            count = terms.pop(values, 0)
            terms[values] = count + 1
    last_first = [*terms][::-1]
    return sorted(last_first, key=lambda values: -terms[values])


def _binds_memory(validated: Validated) -> bool:
    """Whether a placement of slices binds the pod to GPU memory values, by `is_bound_by_memory`."""
    policy, fraction = validated.policy, validated.fraction
    if policy.mode.is_claimed:
        return False
    return not fraction.is_whole and (policy.writes_limits or fraction.is_of_memory)


def _comes_to(validated: Validated, gpu_mib: int | None) -> bool:
    """Whether the share of such a GPU has the pod's MiB; with limits by the node's agent there are none."""
    policy, fraction, said = validated.policy, validated.fraction, validated.said.get(MEMORY_MIB)
    if not gpu_mib or fraction.on_card(gpu_mib) != fraction:
        return False
    if not policy.writes_limits:
        return said is None
    each = fraction.limits_mib(gpu_mib, policy.reserve_mib)
    return each is not None and said == numbers_text(each)
