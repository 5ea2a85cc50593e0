"""Translates a pod in HAMi's syntax: amounts of containers, and annotations about cards.

Of these, the ones with an equivalent here are accepted, the others denied by name. For HAMi, an empty list of
cards or an empty mode requires nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from kube.names import (
    COMPUTE_ANNOTATION,
    CONTAINER_ANNOTATION,
    CONTAINERS_ANNOTATION,
    GPU_MODEL_ANNOTATION,
    GPU_RESOURCE,
    GPUS_ANNOTATION,
    NVIDIA_DOMAIN,
)
from kube.quantity import whole
from modes.gpu_kinds import MAX_PATTERNS, MAX_TEXT, KindProblem, read_gpu_kinds
from policies.model.effective import EffectivePolicy
from policies.model.label_advice import MAX_SHOWN
from webhook.admission.alias_words import (
    MAX_CHARACTERS,
    MIB,
    Alias,
    AliasError,
    Label,
    System,
    known_text,
    memory_label,
    misplaced_amount,
    rewritten,
    shown,
    words_of,
)
from webhook.admission.denial import cut_text
from webhook.admission.json_patch import Operation, add
from webhook.admission.pod import LABEL, Container, ObjectMeta, Pod, PodSpec, Resources

_MEMORY, _PERCENT = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
_CORES, _GPUS = "nvidia.com/gpucores", GPU_RESOURCE
HAMI_RESOURCES = (_MEMORY, _PERCENT, _CORES)
_PRIORITY = "nvidia.com/priority"
"""Which of the tasks on a card HAMi lets compute first. Here they take turns, so it is removed."""
_REMOVED = (*HAMI_RESOURCES, _PRIORITY)
HAMI_USE_TYPE, _NO_TYPE = NVIDIA_DOMAIN + "use-gputype", NVIDIA_DOMAIN + "nouse-gputype"
_USE_UUID, _NO_UUID = NVIDIA_DOMAIN + "use-gpuuuid", NVIDIA_DOMAIN + "nouse-gpuuuid"
_MODE, _NUMA = NVIDIA_DOMAIN + "vgpu-mode", NVIDIA_DOMAIN + "numa-bind"
_NODE_POLICY, _GPU_POLICY = "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"
HAMI_ANNOTATIONS = (
    *(HAMI_USE_TYPE, _NO_TYPE, _USE_UUID, _NO_UUID),
    *(_MODE, _NUMA, _NODE_POLICY, _GPU_POLICY),
)
"""HAMi's annotations about a pod's cards."""
ALL = 100
"""Percent: a whole card's memory, or all of its compute, which HAMi gives to only one container."""
_VENDOR = "NVIDIA"
"""Prefix of every type in HAMi: "NVIDIA-NVIDIA A100-SXM4-80GB"."""
_PLACES = {"pack": "binpack", "spread": "spread"}
"""A policy's placement, and HAMi's word for it."""
_TRUE = {"1", "t", "true"}
_NO_CHOICE = "is not supported, since pods cannot choose their card: remove it"


class HamiShare(msgspec.Struct, frozen=True, gc=False):
    """The request of one container, as HAMi reads it."""

    gpus: int
    mib: int
    """Of each GPU; 0 if the percentage counts."""
    percent: int
    cores: int
    """Percent of compute; 0 limits nothing."""
    ignored: tuple[str, ...]
    """Requests without effect: a percentage beside MiB, a priority, compute that the policy ignores."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all memory of each GPU."""
        return not self.mib and self.percent == ALL


def _pod_asks(_: ObjectMeta, spec: PodSpec) -> bool:
    """Whether a container requests a share in this syntax."""
    return any(map(_asks, (*(spec.init_containers or ()), *(spec.containers or ()))))


def _read(metadata: ObjectMeta, spec: PodSpec, policy: EffectivePolicy) -> Alias:
    theirs, container = metadata.annotations or {}, _asking_container(spec)
    for each in spec.init_containers or ():
        if _asks(each) and _amounts_of(each) != _amounts_of(container):
            name = cut_text(each.name, MAX_CHARACTERS)
            raise AliasError(
                f'init container "{name}" and its pod request different shares: use the same in both'
            )
    share = _share(container, policy)
    _refuse_cards(theirs, policy)
    label = _label(share, policy)
    gpus = None if share.gpus == 1 or share.is_whole else str(share.gpus)
    ours = {
        GPUS_ANNOTATION: gpus,
        CONTAINER_ANNOTATION: container.name,
        COMPUTE_ANNOTATION: _compute(share),
        **_models_of(theirs.get(HAMI_USE_TYPE, "")),
    }
    present = [name for name in HAMI_ANNOTATIONS if name in theirs]
    changed, operations = rewritten(metadata, label, ours, present)
    containers = _in_our_words(spec.containers or [], str(share.gpus), "/spec/containers", operations)
    inits = _in_our_words(spec.init_containers or [], str(share.gpus), "/spec/initContainers", operations)
    found = msgspec.structs.replace(spec, containers=containers, init_containers=inits or None)
    words = _words(share, label, ours, theirs)
    return Alias(Pod(changed, found), operations, "; ".join(words))


def _asking_container(spec: PodSpec) -> Container:
    """Return the one container with a request, of those that run at the same time."""
    sidecars = [each for each in spec.init_containers or () if each.is_native_sidecar]
    asking: list[Container] = [each for each in (*(spec.containers or ()), *sidecars) if _asks(each)]
    if len(asking) > 1:
        first, second = (cut_text(each.name, MAX_CHARACTERS) for each in asking[:2])
        raise AliasError(
            f'containers "{first}" and "{second}" both request HAMi resources: use only one of them,'
            f" or use our label and {CONTAINERS_ANNOTATION}"
        )
    if not asking:
        raise AliasError(f"only init containers request {_MEMORY}: request it in a regular container")
    return asking[0]


def _amounts_of(container: Container) -> tuple[str, dict[str, str]]:
    amounts = {name: amount for name, amount in _amounts(container.resources) if amount != "0"}
    return _gpus(container.resources), amounts


def _share(container: Container, policy: EffectivePolicy) -> HamiShare:
    amounts = dict(_amounts(container.resources, _REMOVED))
    if _CORES in amounts and policy.gpucores == "deny":
        raise AliasError(f"policy {policy.name} does not accept {_CORES}: remove it, or ask the admin")
    memory, percent, cores = (amounts.get(name, "0") for name in HAMI_RESOURCES)
    gpus = _gpus(container.resources)
    if MIB.fullmatch(gpus) is None:
        raise AliasError(f"{_GPUS} {shown(gpus)} is not a whole number above 0: fix it")
    if memory != "0":
        memory_label(_MEMORY, memory)
    if percent != "0" and (MIB.fullmatch(percent) is None or int(percent) > ALL):
        raise AliasError(f"{_PERCENT} {shown(percent)} is not a whole number from 0 to 100: fix it")
    if cores != "0" and MIB.fullmatch(cores) is None:
        raise AliasError(f"{_CORES} {shown(cores)} is not a whole number: fix it")
    ignored: tuple[str, ...] = (f"{_PERCENT} {percent}",) if memory != "0" and percent != "0" else ()
    if policy.gpucores == "ignore" and _CORES in amounts:
        ignored, cores = (*ignored, _CORES), "0"
    ignored += (_PRIORITY,) if _PRIORITY in amounts else ()
    return HamiShare(int(gpus), int(memory), int(percent) or ALL, int(cores), ignored)


def _label(share: HamiShare, policy: EffectivePolicy) -> Label:
    if share.mib:
        return memory_label(_MEMORY, str(share.mib))
    known = known_text(str(share.gpus) if share.is_whole else f"0.{share.percent:02d}", policy)
    if known is not None:
        return LABEL, known
    allowed = [str(each) for each in range(1, ALL) if known_text(f"0.{each:02d}", policy) is not None]
    label = f"the label {LABEL}"
    advice = f"use {', '.join(allowed[:MAX_SHOWN])}, or {label}" if allowed else f"use {label}"
    raise AliasError(f'{_PERCENT} "{share.percent}" is not a fraction of policy {policy.name}: {advice}')


def _compute(share: HamiShare) -> str | None:
    """Return the limit of compute for the cores; 100 is a whole card."""
    if not share.cores or (share.is_whole and share.cores >= ALL):
        return None
    if share.is_whole:
        raise AliasError(f"{_CORES} {share.cores} cannot limit whole GPUs: remove it")
    if share.cores >= ALL:
        raise AliasError(
            f"{_CORES} {share.cores} takes a whole card, but the pod requests a part of one:"
            " remove one of the two"
        )
    return str(share.cores)


def _asks(container: Container) -> bool:
    return any(_amounts(container.resources))


def _amounts(
    resources: Resources | None, names: Collection[str] = HAMI_RESOURCES
) -> Iterator[tuple[str, str]]:
    """Yield a container's requests; if a name is in both, limits come last and count."""
    for amounts in (resources.requests, resources.limits) if resources is not None else ():
        for name, amount in (amounts or {}).items():
            if name in names:
                yield name, _plain(amount)


def _gpus(resources: Resources | None) -> str:
    for amounts in (resources.limits, resources.requests) if resources is not None else ():
        if amounts and _GPUS in amounts:
            return _plain(amounts[_GPUS])
    return "1"


def _plain(amount: str | int) -> str:
    """Return a number in plain digits (the API server writes 3000 as "3k"), and other text unchanged."""
    try:
        digits = str(whole(amount))
    except ValueError:
        return str(amount)
    return digits if digits == "0" or MIB.fullmatch(digits) else str(amount)


def _in_our_words(
    containers: Sequence[Container], gpus: str, path: str, operations: list[Operation]
) -> list[Container]:
    """Remove HAMi's amounts, but keep `nvidia.com/gpu`: it marks init containers that use the GPU."""
    plain = list(containers)
    for at, container in enumerate(containers):
        resources = container.resources
        if resources is None or not _asks(container):
            continue
        fields = {
            field: {**{name: each for name, each in amounts.items() if name not in _REMOVED}, _GPUS: gpus}
            for field, amounts in (("limits", resources.limits), ("requests", resources.requests))
            if amounts is not None
        }
        operations += [add(f"{path}/{at}/resources/{field}", each) for field, each in fields.items()]
        changed = Resources(fields.get("limits"), fields.get("requests"))
        plain[at] = msgspec.structs.replace(container, resources=changed)
    return plain


def _words(
    share: HamiShare, label: Label, ours: Mapping[str, str | None], theirs: Mapping[str, str]
) -> list[str]:
    said = {
        COMPUTE_ANNOTATION: f"{_CORES} {share.cores}",
        GPU_MODEL_ANNOTATION: f"{HAMI_USE_TYPE} {theirs.get(HAMI_USE_TYPE)}",
    }
    amount = f"{_MEMORY} {share.mib}" if share.mib else f"{_PERCENT} {share.percent}"
    translated = [words_of(said[name], (name, text)) for name, text in ours.items() if text and name in said]
    return [words_of(amount, label), *translated, *[f"{each} is ignored" for each in share.ignored]]


def _refuse_cards(theirs: Mapping[str, str], policy: EffectivePolicy) -> None:
    """Refuse annotations about cards that demand what pods cannot have here."""
    advice = f"is not supported: list the accepted types in {HAMI_USE_TYPE}"
    for name, rule in ((_NO_TYPE, advice), (_USE_UUID, _NO_CHOICE), (_NO_UUID, _NO_CHOICE)):
        if theirs.get(name, "").strip():
            raise AliasError(f"{name} {rule}")
    if theirs.get(_NUMA, "").lower() in _TRUE:
        raise AliasError(f"{_NUMA} is not supported: remove it")
    for name in (_NODE_POLICY, _GPU_POLICY):
        text = theirs.get(name, "").strip()
        if text and text != _PLACES[policy.demands.place]:
            rule = f"differs from the placement of policy {policy.name}: remove it, or ask the admin"
            raise AliasError(f"{name} {shown(text)} {rule}")
    # A list of modes must have each that the policy may use.
    gives = [] if policy.mode.gives_instances else ["hami-core"]
    if policy.instance_mode is not None:
        gives.append("mig")
    listed = theirs.get(_MODE)
    if listed is not None and not all(mode in listed for mode in gives):
        given = f"policy {policy.name} provides {' or '.join(gives)}"
        raise AliasError(f"{_MODE} {shown(listed)}: {given}: remove it, or ask the admin")


def _models_of(text: str) -> dict[str, str]:
    """Return our annotation for the card types that a pod accepts; empty if it accepts all.

    Each type is a part of a card's name, in upper or lower case.
    """
    types = [each.strip() for each in text.split(",")] if len(text) <= MAX_TEXT else []
    if not text.strip() or any(each.upper() == _VENDOR for each in types):
        return {}
    patterns = {GPU_MODEL_ANNOTATION: ",".join([_pattern(each) for each in types if each])}
    if isinstance(read_gpu_kinds(patterns), KindProblem):
        raise AliasError(
            f"{HAMI_USE_TYPE} {shown(text)} does not list 1 to {MAX_PATTERNS} types of cards: fix it"
        )
    return patterns


def _pattern(name: str) -> str:
    """Return the pattern for a part of a card's name. HAMi separates its words by spaces, we by hyphens."""
    if name.upper().startswith(f"{_VENDOR}-{_VENDOR}"):
        name = name[len(_VENDOR) + 1 :]
    return "*" + "-".join(re.split(r"[\s-]+", name)) + "*"


def _misplaced(metadata: ObjectMeta) -> str | None:
    where = "in resources.limits of a container"
    places = {"annotation": metadata.annotations, "label": metadata.labels}
    return misplaced_amount(places, HAMI_RESOURCES, where)


HAMI = System(_pod_asks, _read, _misplaced)
