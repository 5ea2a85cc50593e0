"""Limits the size of a labelled pod and of its patch, far above the needs of real pods.

The API server checks names and numbers only after the mutating webhooks, so a pod of 3 MiB that no node could
run also gets here. No rule walks a pod that is refused here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kube.names import INJECTED_ANNOTATION, MAX_LABEL_VALUE
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.json_patch import Operation, encode
from webhook.admission.pod import Container, ObjectMeta, PodSpec, Resources

MAX_BYTES = 512 * 1024
"""Of a review. Real labelled pods have 3 to 50 kB; Argo repeats a template of up to 128 KiB three times."""
MAX_PARTS = 40_000
"""Lists, maps and members of maps in a review: a decoder needs 0.1 to 0.4 us for each. A variable has three,
and ten more in managedFields."""
MAX_CONTAINERS = 200
"""Regular and init containers."""
MAX_VOLUMES = 500
MAX_VARIABLES = 2500
"""Of all containers together, like the other limits."""
MAX_MOUNTS = 1000
"""Also of block devices."""
MAX_PATH_CHARACTERS = 100_000
"""Of all mounts and hostPaths, because each rule about paths normalises them all."""
MAX_CAPABILITIES = 100
"""Of one container; Linux has 41."""
MAX_AMOUNTS = 1000
"""Resource amounts in limits, requests and overhead."""
MAX_ANNOTATIONS = 1000
MAX_TERMS = 200
"""Of the required node affinity: twice the limit of `placement_request`, since a first review adds to it."""
MAX_EXPRESSIONS = 1000
MAX_OPERATIONS = 500
"""Of a patch: for each, an API server moves the rest of a list; 85,000 took 34 s."""
MAX_PATCH_BYTES = 700_000
"""In base64 and with the rest of the answer below 1 MiB."""

_Limit = tuple[int, int, str, str]
"""A count of a pod, its maximum, its name, and what to do."""
_SHORTEN = "use shorter paths"
_SPLIT = "split it into several pods"
_BY_FILE = "pass them in a file or by envFrom"
_PATHS = "characters of paths"


def refuse_too_large(body: bytes) -> Denial | None:
    """Deny a labelled object whose review is too large to be decoded whole."""
    if len(body) > MAX_BYTES:
        found = f"{len(body)} bytes, more than {MAX_BYTES}"
    elif len(body) > MAX_PARTS and _parts(body) > MAX_PARTS:
        found = f"{_parts(body)} lists and fields, more than {MAX_PARTS}"
    else:
        return None
    advice = "shorten its longest field, or pass long values in a ConfigMap"
    return Denial.of(Reason.TOO_LARGE, f"the request has {found}: {advice}")


def refuse_oversized(metadata: ObjectMeta | None, spec: PodSpec) -> Denial | None:
    """Deny a pod that exceeds a limit, or in which two containers or volumes have the same name.

    For a pod that is marked as injected, the limits are a quarter higher.
    """
    annotations = (metadata.annotations if metadata is not None else None) or ()
    volumes, every = spec.volumes or [], [*(spec.init_containers or ()), *(spec.containers or ())]
    limits = (
        (len(annotations), MAX_ANNOTATIONS, "annotations", "remove some"),
        (len(volumes), MAX_VOLUMES, "volumes", "combine several in a projected volume"),
        (len(every), MAX_CONTAINERS, "containers", _SPLIT),
        *_in_containers(spec, every),
        *_in_affinity(spec),
    )
    # An earlier review has added our part.
    is_injected = INJECTED_ANNOTATION in annotations
    for count, usual, what, advice in limits:
        most = usual * 5 // 4 if is_injected else usual
        if count > most:
            return Denial.of(Reason.TOO_LARGE, f"the pod has {count} {what}, more than {most}: {advice}")
    return _refuse_duplicates("containers", [each.name for each in every]) or _refuse_duplicates(
        "volumes", [volume.name for volume in volumes]
    )


def bounded(operations: list[Operation]) -> bytes | Denial:
    """Return the text of a patch, empty if nothing changes; deny one that costs an API server too much."""
    if not operations:
        return b""
    if len(operations) > MAX_OPERATIONS:
        return Denial.of(
            Reason.TOO_LARGE,
            f"the share needs {len(operations)} changes of the pod, more than {MAX_OPERATIONS}: remove"
            " variables and clear.ml/fraction-* that the injector removes",
        )
    patch = encode(operations)
    if len(patch) <= MAX_PATCH_BYTES:
        return patch
    return Denial.of(
        Reason.TOO_LARGE,
        f"the share needs a patch of {len(patch)} bytes, more than {MAX_PATCH_BYTES}:"
        " shorten LD_PRELOAD, names and amounts",
    )


def _parts(body: bytes) -> int:
    # Those in texts count too: few texts have so many.
    return body.count(b"[") + body.count(b"{") + body.count(b'":')


def _in_containers(spec: PodSpec, every: Sequence[Container]) -> Iterable[_Limit]:
    mounts = [mount for each in every for mount in each.volume_mounts or ()]
    devices = [device for each in every for device in each.volume_devices or ()]
    hosts = [volume.host_path.path for volume in spec.volumes or () if volume.host_path is not None]
    contexts = [each.security_context for each in every if each.security_context is not None]
    added = [len(each.capabilities.add or ()) for each in contexts if each.capabilities is not None]
    mounted = [
        *[mount.mount_path for mount in mounts],
        *[each.termination_message_path or "" for each in every],
    ]
    amounts = sum(map(_amounts, [spec.resources, *[each.resources for each in every]]))
    return (
        (sum([len(each.env or ()) for each in every]), MAX_VARIABLES, "variables", _BY_FILE),
        (len(mounts), MAX_MOUNTS, "volume mounts", "mount a parent directory"),
        (len(devices), MAX_MOUNTS, "volume devices", _SPLIT),
        (max(added, default=0), MAX_CAPABILITIES, "capabilities in one container", "list each once"),
        (amounts + len(spec.overhead or ()), MAX_AMOUNTS, "resource amounts", "remove unused ones"),
        (sum(map(len, mounted)), MAX_PATH_CHARACTERS, _PATHS, _SHORTEN),
        (
            sum(map(len, [*hosts, *[device.device_path for device in devices]])),
            MAX_PATH_CHARACTERS,
            _PATHS,
            _SHORTEN,
        ),
    )


def _in_affinity(spec: PodSpec) -> Iterable[_Limit]:
    terms = required_terms(spec) or ()
    expressions = sum([len(term.match_expressions or ()) + len(term.match_fields or ()) for term in terms])
    advice = "label the nodes, and require that label"
    return (
        (len(terms), MAX_TERMS, "terms in required node affinity", advice),
        (expressions, MAX_EXPRESSIONS, "expressions in required node affinity", advice),
    )


def _refuse_duplicates(what: str, names: list[str]) -> Denial | None:
    if len(set(names)) == len(names):
        return None
    duplicate = next(name for name, count in Counter(names).items() if count > 1)
    shown = cut_text(duplicate, MAX_LABEL_VALUE)
    return Denial.of(
        Reason.DUPLICATE_NAME, f'several {what} of the pod are named "{shown}": give each its own name'
    )


def _amounts(resources: Resources | None) -> int:
    return 0 if resources is None else len(resources.limits or ()) + len(resources.requests or ())
