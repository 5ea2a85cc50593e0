# ruff: noqa: INP001 - a script, not part of a package
"""Part of `make chart`: the second lock's expressions and a page of the docs, from kube/device_keys.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kube.device_keys import ANNOTATIONS, DEVICE_LIST_MOUNT, ENVIRONMENT, HOST_PATHS, DeviceKey, names_of
from policies.model.allowances import HOST_PATHS as ALLOWABLE

CHART = Path(__file__).with_name("fraction-injector")
TEMPLATE = CHART / "templates" / "admission-policies" / "_device-keys.tpl"
PAGE = CHART.parent.parent / "docs" / "reference" / "device-keys.md"
DECISIONS = {
    "removed": "removed from every container",
    "removed-from-gpu-containers": "removed from GPU containers",
    "kept": "kept",
    "denied": "denied",
    "denied-to-every-pod": "denied, by the second lock to every pod",
}
HEAD = """\
# Keys that give devices or lift a limit

Made by `make chart` from `kube/device_keys.py`. The webhook and the second lock apply it to labelled pods. It
has each variable and annotation that NVIDIA's container toolkit, device plugin or DRA driver reads, also
those that stay. `*` stands for any text.
"""


def make_template() -> str:
    """Return the helpers of the second lock, as expressions of CEL."""
    every = _any("k", names_of(ANNOTATIONS, "denied-to-every-pod"))
    labelled = _any("k", names_of(ANNOTATIONS, "denied-to-every-pod", "denied"))
    removed = _any("e.name", names_of(ENVIRONMENT, "removed"))
    selects = f"m.mountPath.matches('^/?(var/)?{DEVICE_LIST_MOUNT.removeprefix('/')}')"
    return "\n".join(
        [
            "{{/* Made by `make chart` from kube/device_keys.py. */}}",
            *_define("celGivesDevices", "whether k is an annotation that no pod may have", every),
            *_define("celGivesLabelledDevices", "the same of a labelled pod", labelled),
            *_define("celRemoved", "whether no container may have the variable e", removed),
            *_define("celSelectsDevices", "whether the mount m selects devices", selects),
        ]
    )


def _define(name: str, what: str, expression: str) -> Iterator[str]:
    yield f"\n{{{{/* CEL: {what}. */}}}}"
    yield f'{{{{- define "fraction-injector.{name}" -}}}}\n{expression}\n{{{{- end -}}}}'


def _any(variable: str, names: list[str]) -> str:
    """Return whether a text is one of the names, before a slash, or begins as one of those with a star."""
    plain = [name for name in names if not name.endswith("*")]
    begun = [f" || {variable}.startsWith('{name[:-1]}')" for name in names if name.endswith("*")]
    return f"({variable}.split('/')[0] in {plain}{''.join(begun)})"


def make_page() -> str:
    """Return the page of the docs."""
    return "\n".join(
        [
            HEAD,
            *_table("Environment variables", "variable", ENVIRONMENT),
            *_table("Annotations of the pod", "annotation, also with a suffix such as `/pod`", ANNOTATIONS),
            "## Mounts and hostPath volumes\n",
            "hostPath volumes are denied if they are, contain or lie below such a path.\n",
            "| path | in a labelled pod | what is there |",
            "|---|---|---|",
            f"| `{DEVICE_LIST_MOUNT}*` as a mount path | denied | names of devices |",
            *_rows((path, "denied", what) for path, what in HOST_PATHS.items()),
            *_rows((path, "denied unless the policy's `allow.hostPaths` has it", "") for path in ALLOWABLE),
            "",
        ]
    )


def _table(title: str, column: str, keys: tuple[DeviceKey, ...]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| {column} | in a labelled pod | what reads it |"
    yield "|---|---|---|"
    yield from _rows((key.name, DECISIONS[key.decision], key.effect) for key in keys)
    yield ""


def _rows(keys: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a row for each decision and reader, with all keys of both."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, decision, effect in keys:
        names.setdefault((decision, effect), []).append(f"`{name}`")
    yield from (
        f"| {', '.join(found)} | {decision} | {effect} |" for (decision, effect), found in names.items()
    )
