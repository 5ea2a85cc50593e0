"""Limits the size of a labelled pod and of its patch, far above the needs of real pods.

The API server checks names and numbers only after the mutating webhooks, so a pod of 3 MiB that no node could
run also gets here. All else is bounded by the bytes and parts of a review: every rule is linear in them.
"""

from __future__ import annotations

from collections import Counter

from kube.names import INJECTED_ANNOTATION, MAX_LABEL_VALUE
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason, cut_text
from webhook.admission.json_patch import Operation, encode
from webhook.admission.pod import ObjectMeta, PodSpec, Resources

MAX_BYTES = 512 * 1024
"""Of a review. Real labelled pods have 3 to 50 kB; Argo repeats a template of up to 128 KiB three times."""
MAX_PARTS = 40_000
"""Lists, maps and members of maps in a review: a decoder needs 0.1 to 0.4 us for each. A variable has three,
and ten more in managedFields."""
MAX_CONTAINERS = 200
"""Regular and init containers."""
MAX_MOUNTS = 1000
"""Of all containers together."""
MAX_AMOUNTS = 1000
"""Resource amounts in limits, requests and overhead."""
MAX_TERMS = 200
"""In required node affinity. A second review compares each with the rest of the pod several times."""
MAX_OPERATIONS = 500
"""Of a patch: for each, an API server moves the rest of a list; 85,000 took 34 s."""
MAX_PATCH_BYTES = 700_000
"""In base64 and with the rest of the answer below 1 MiB."""


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

    For a pod that is marked as injected, the limits are a quarter higher: an earlier review added our part.
    """
    every = [*(spec.init_containers or ()), *(spec.containers or ())]
    amounts = sum(map(_amounts, [spec.resources, *[each.resources for each in every]]))
    mounts = sum([len(each.volume_mounts or ()) for each in every])
    is_injected = metadata is not None and INJECTED_ANNOTATION in (metadata.annotations or ())
    for count, usual, what, advice in (
        (len(every), MAX_CONTAINERS, "containers", "split it into several pods"),
        (mounts, MAX_MOUNTS, "volume mounts", "mount a parent directory"),
        (amounts + len(spec.overhead or ()), MAX_AMOUNTS, "resource amounts", "remove unused ones"),
        (len(required_terms(spec) or ()), MAX_TERMS, "terms in required node affinity", "require one label"),
    ):
        most = usual * 5 // 4 if is_injected else usual
        if count > most:
            return Denial.of(Reason.TOO_LARGE, f"the pod has {count} {what}, more than {most}: {advice}")
    return _refuse_duplicates("containers", [each.name for each in every]) or _refuse_duplicates(
        "volumes", [volume.name for volume in spec.volumes or ()]
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
