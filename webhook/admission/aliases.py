"""Other systems' ways to ask for a share, where a policy takes them for ours: KAI's (Run:ai's) and HAMi's.

Such a pod carries no label of ours. It is rewritten to what its author would have written here, and decided
as that pod: the rules know nothing of other systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kube.names import CONTAINER_ANNOTATION, CONTAINERS_ANNOTATION, GPU_RESOURCE, GPUS_ANNOTATION
from kube.quantity import whole
from modes.fraction import Fraction
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import MAX_SHOWN, label_advice
from webhook.admission.annotations import INJECTED
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.json_patch import Operation, add, pointer, remove
from webhook.admission.pod import LABEL, MEMORY_LABEL, Container, ObjectMeta, Pod, PodSpec, Resources

KAI_FRACTION, KAI_MEMORY = "gpu-fraction", "gpu-memory"
KAI_GPUS, KAI_CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
_KAI = (KAI_FRACTION, KAI_MEMORY, KAI_GPUS, KAI_CONTAINER)
HAMI_MEMORY, HAMI_PERCENT = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
HAMI_CORES, HAMI_GPUS = "nvidia.com/gpucores", GPU_RESOURCE
_HAMI = (HAMI_MEMORY, HAMI_PERCENT, HAMI_CORES)
MAX_CHARACTERS = 12
"""Of an amount; a denial repeats no more."""
_MIB = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_PERCENT = re.compile(r"[1-9][0-9]?|100", re.ASCII)

_QUOTED = tuple(f'"{name}"'.encode() for name in (KAI_FRACTION, KAI_MEMORY, *_HAMI))
_SPELLED = re.compile(rb"\\(?:/|u00[267])")
"""How JSON can write a character of these words otherwise."""


class Alias(msgspec.Struct, frozen=True, eq=False):
    """A pod in our words."""

    pod: Pod
    operations: list[Operation]
    """What makes this pod of the one that came; the share's own patch follows."""
    words: str
    """What was rewritten to what, for people."""


def read_alias(pod: Pod, policy: EffectivePolicy) -> Alias | Denial | None:
    """Return an unlabelled pod in our words; None where it asks in no words that the policy takes."""
    metadata, spec = pod.metadata, pod.spec
    if metadata is None or spec is None:
        return None
    if "kai" in policy.aliases and _is_kais(metadata):
        return _of_kai(pod, metadata, metadata.annotations or {}, policy)
    if "hami" in policy.aliases and _is_hamis(spec):
        return _of_hami(metadata, spec, policy)
    return None


def asks_in_other_words(pod: Pod) -> bool:
    """Whether some policy might take a pod without our labels for one of ours."""
    metadata, spec = pod.metadata, pod.spec
    return (metadata is not None and _is_kais(metadata)) or (spec is not None and _is_hamis(spec))


def is_surely_without_aliases(body: bytes) -> bool:
    """Whether none of these words stands in a review, nor any escape that could spell one."""
    return not any(word in body for word in _QUOTED) and _SPELLED.search(body) is None


def _is_kais(metadata: ObjectMeta) -> bool:
    annotations = metadata.annotations or ()
    return KAI_FRACTION in annotations or KAI_MEMORY in annotations


def _is_hamis(spec: PodSpec) -> bool:
    return any(map(_asks_hami, (*(spec.init_containers or ()), *(spec.containers or ()))))


def _of_kai(
    pod: Pod, metadata: ObjectMeta, theirs: dict[str, str], policy: EffectivePolicy
) -> Alias | Denial:
    fraction, mib = theirs.get(KAI_FRACTION), theirs.get(KAI_MEMORY)
    if fraction is not None and mib is not None:
        return _denied(f"annotations {KAI_FRACTION} and {KAI_MEMORY} are two amounts: keep one")
    label = _memory(KAI_MEMORY, mib) if mib is not None else _fraction(KAI_FRACTION, fraction or "", policy)
    if isinstance(label, Denial):
        return label
    ours = {GPUS_ANNOTATION: theirs.get(KAI_GPUS), CONTAINER_ANNOTATION: theirs.get(KAI_CONTAINER)}
    amount = f"{KAI_MEMORY} {mib}" if mib is not None else f"{KAI_FRACTION} {fraction}"
    present = [name for name in _KAI if name in theirs]
    rewritten, operations = _rewritten(metadata, label, ours, present)
    return Alias(Pod(rewritten, pod.spec), operations, _words(amount, label))


def _of_hami(metadata: ObjectMeta, spec: PodSpec, policy: EffectivePolicy) -> Alias | Denial:
    container = _one_share(spec)
    if isinstance(container, Denial):
        return container
    amounts = dict(_hami_amounts(container.resources))
    if HAMI_CORES in amounts:
        return _denied(f"{HAMI_CORES} is not taken over, compute is the policy's to limit: leave it out")
    mib, percent = amounts.get(HAMI_MEMORY), amounts.get(HAMI_PERCENT)
    if mib is not None and percent is not None:
        return _denied(f"{HAMI_MEMORY} and {HAMI_PERCENT} are two amounts: keep one")
    label = _memory(HAMI_MEMORY, mib) if mib is not None else _percent(percent or "", policy)
    if isinstance(label, Denial):
        return label
    gpus = _hami_gpus(container)
    ours = {GPUS_ANNOTATION: None if gpus == "1" else gpus, CONTAINER_ANNOTATION: container.name}
    amount = f"{HAMI_MEMORY} {mib}" if mib is not None else f"{HAMI_PERCENT} {percent}"
    rewritten, operations = _rewritten(metadata, label, ours, [])
    containers = _without_hami(spec.containers or [], "/spec/containers", operations)
    inits = _without_hami(spec.init_containers or [], "/spec/initContainers", operations)
    found = msgspec.structs.replace(spec, containers=containers, init_containers=inits or None)
    return Alias(Pod(rewritten, found), operations, _words(amount, label))


def _one_share(spec: PodSpec) -> Container | Denial:
    """Return the one regular container that asks; init containers may only ask for the same as it does."""
    asking = [each for each in spec.containers or () if _asks_hami(each)]
    inits = [each for each in spec.init_containers or () if _asks_hami(each)]
    if len(asking) > 1:
        first, second = (cut_text(each.name, MAX_CHARACTERS) for each in asking[:2])
        return _denied(
            f'containers "{first}" and "{second}" both ask in HAMi\'s words: leave it to one of them,'
            f" or use our label and {CONTAINERS_ANNOTATION}"
        )
    if not asking:
        return _denied(
            f"of {HAMI_MEMORY} only init containers ask: ask in the container that comes after them"
        )
    share = _hami_share(asking[0])
    for each in inits:
        if _hami_share(each) != share:
            name = cut_text(each.name, MAX_CHARACTERS)
            return _denied(
                f'init container "{name}" asks for another share than its pod: write the same, or none'
            )
    return asking[0]


def _asks_hami(container: Container) -> bool:
    return any(_hami_amounts(container.resources))


def _hami_share(container: Container) -> tuple[dict[str, str], str]:
    return dict(_hami_amounts(container.resources)), _hami_gpus(container)


def _hami_gpus(container: Container) -> str:
    limits = (container.resources.limits if container.resources is not None else None) or {}
    return _plain(limits.get(HAMI_GPUS, "1"))


def _hami_amounts(resources: Resources | None) -> Iterator[tuple[str, str]]:
    for amounts in (resources.requests, resources.limits) if resources is not None else ():
        for name, amount in (amounts or {}).items():
            if name in _HAMI:
                yield name, _plain(amount)


def _plain(amount: str | int) -> str:
    """Return an amount in plain digits: the API server writes 3000 as "3k". As it is if it is no number."""
    try:
        digits = str(whole(amount))
    except ValueError:
        digits = ""
    return digits if _MIB.fullmatch(digits) else str(amount)


def _without_hami(containers: list[Container], path: str, operations: list[Operation]) -> list[Container]:
    """Take HAMi's amounts out, and leave a GPU where they stood: init containers are found by it."""
    plain = []
    for at, container in enumerate(containers):
        if _asks_hami(container):
            resources = container.resources or Resources()
            limits, requests = (
                _with_gpu(amounts, f"{path}/{at}/resources/{field}", operations)
                for field, amounts in (("limits", resources.limits), ("requests", resources.requests))
            )
            container = msgspec.structs.replace(container, resources=Resources(limits, requests))  # noqa: PLW2901
        plain.append(container)
    return plain


def _with_gpu(
    amounts: dict[str, str | int] | None, path: str, operations: list[Operation]
) -> dict[str, str | int] | None:
    if amounts is None:
        return None
    operations += [remove(path + pointer(name)) for name in amounts if name in _HAMI]
    left = {name: each for name, each in amounts.items() if name not in _HAMI}
    if HAMI_GPUS not in left:
        left[HAMI_GPUS] = "1"
        operations.append(add(path + pointer(HAMI_GPUS), "1"))
    return left


def _rewritten(
    metadata: ObjectMeta, label: tuple[str, str], ours: dict[str, str | None], theirs: list[str]
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
    rewritten = msgspec.structs.replace(
        metadata,
        labels={**(labels or {}), name: text},
        annotations=None if annotations is None and not added else {**kept, **added},
    )
    return rewritten, operations


def _words(amount: str, label: tuple[str, str]) -> str:
    name, text = label
    return f'{amount} is {name} "{text}"'


def _memory(what: str, text: str) -> tuple[str, str] | Denial:
    if _MIB.fullmatch(text) is None:
        shown = cut_text(text, MAX_CHARACTERS)
        return _denied(f'{what} "{shown}" is no whole number of MiB: write it such as "4096"')
    return MEMORY_LABEL, f"{text}Mi"


def _percent(text: str, policy: EffectivePolicy) -> tuple[str, str] | Denial:
    if _PERCENT.fullmatch(text) is None:
        shown = cut_text(text, MAX_CHARACTERS)
        return _denied(f'{HAMI_PERCENT} "{shown}" is no whole number from 1 to 100: mend it')
    known = _known_text(_as_decimal(int(text)), policy)
    if known is not None:
        return LABEL, known
    allowed = [str(each) for each in range(1, 101) if _known_text(_as_decimal(each), policy) is not None]
    advice = (
        f"use {', '.join(allowed[:MAX_SHOWN])}, or the label {LABEL}" if allowed else f"use the label {LABEL}"
    )
    return _denied(f'{HAMI_PERCENT} "{text}" is no fraction of policy {policy.name}: {advice}')


def _as_decimal(percent: int) -> str:
    return f"{percent // 100}.{percent % 100:02d}"


def _fraction(what: str, text: str, policy: EffectivePolicy) -> tuple[str, str] | Denial:
    """Find the text of the policy's table that means the same amount."""
    known = _known_text(text, policy)
    if known is not None:
        return LABEL, known
    shown = cut_text(text, MAX_CHARACTERS)
    advice = label_advice(shown, policy) or f"policy {policy.name} allows no fraction: ask the admin"
    return _denied(f'{what} "{shown}" is no fraction of policy {policy.name}: {advice}')


def _known_text(text: str, policy: EffectivePolicy) -> str | None:
    """Return the policy's text of a decimal's amount; None where it has none."""
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        amount = Fraction.rounded_up(text, policy.slices_per_gpu)
    except ValueError:
        return None
    return next((each for each, fraction in policy.fractions.items() if fraction == amount), None)


def _denied(rule: str) -> Denial:
    return Denial.of(Reason.ALIAS, rule)
