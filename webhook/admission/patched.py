"""Applies JSON Patch to a decoded pod, and refuses operations that our rules never write."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kube.names import PREFIX
from modes.resource_kinds import ResourceKinds
from webhook.admission.json_patch import Operation


class UnsoundPatchError(Exception):
    """A patch must not be sent.

    The text names the rule that wrote it, and contains nothing of the pod.
    """


def apply_patch(
    found: dict[str, Any],
    operations: Sequence[Operation],
    kinds: ResourceKinds,
    others: Collection[str] = (),
) -> None:
    """Apply the operations to a decoded pod, in place.

    `kinds` are the kinds of its policy's resource names. `others` are another system's annotations and
    resources that the patch translates.

    Raises:
        UnsoundPatchError: a path does not exist, or an operation removes more than rules may remove.
    """
    for operation in operations:
        *parents, last = [_unescaped(part) for part in operation["path"].split("/")[1:]]
        holder: Any = found
        try:
            for part in parents:
                holder = holder[int(part)] if isinstance(holder, list) else holder[part]
            _apply(holder, last, operation, _may_go(parents, last, kinds) or last in others)
        except (KeyError, IndexError, ValueError, TypeError):
            raise UnsoundPatchError(f"{rule_of(operation['path'])}: a path does not exist") from None


def rule_of(path: str) -> str:
    """Return the module of webhook/admission/ that writes to a path."""
    parts = path.split("/")[1:]
    for part, rule in _RULES.items():
        if part in parts[:4]:
            return rule
    return "mutate"


_RULES = {
    "annotations": "annotations",
    "affinity": "affinity",
    "env": "environment",
    "volumeMounts": "limiter",
    "volumes": "limiter",
    "resourceClaims": "share_claim",
    "resources": "gpu_resources",
    "image": "images",
    "initContainers": "limiter",
    "schedulingGates": "quota_gate",
}
"""Rules by a part of the paths to which they write; the first match counts."""


def _apply(holder: Any, last: str, operation: Operation, may_go: bool) -> None:  # noqa: FBT001 private, once
    rule = rule_of(operation["path"])
    if operation["op"] == "remove":
        if not may_go:
            raise UnsoundPatchError(f"{rule}: removes a field that is not ours")
        del holder[int(last) if isinstance(holder, list) else last]
    elif operation["op"] != "add":
        raise UnsoundPatchError(f"{rule}: the operation is neither add nor remove")
    elif isinstance(holder, list):
        at = len(holder) if last == "-" else int(last)
        if not 0 <= at <= len(holder):
            raise IndexError(at)
        holder.insert(at, operation["value"])
    elif isinstance(holder.get(last), dict | list) and holder[last]:
        raise UnsoundPatchError(f"{rule}: overwrites a list or a map")
    else:
        holder[last] = operation["value"]


def _may_go(parents: Sequence[str], last: str, kinds: ResourceKinds) -> bool:
    """Whether rules may remove such a member: our annotations, variables, mounts, GPU amounts."""
    match parents[-1:]:
        case ["annotations"]:
            return last.startswith(PREFIX)
        case ["limits"] | ["requests"]:
            kind = kinds[last]
            return kind is not None and kind.is_replaced
        case _:
            return parents[-1:] in (["env"], ["volumeMounts"])


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
