"""The Kubernetes version under test and what it has: the only place that compares versions.

`K8S=1.30` in the environment chooses another release than the default. Each release is a Go module in this
folder, which pins its patch version: `go.mod` for the default, `go-1.30.mod` for 1.30.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

DEFAULT = "1.37"
FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Release:
    """A minor version of Kubernetes and the Go module that its control plane is built from.

    Attributes:
        name: Such as "1.30".
        module: The module file; its sums lie next to it.
    """

    name: str
    module: Path

    @property
    def version(self) -> str:
        """The version with its patch level, as the module pins it."""
        pinned = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", self.module.read_text(), re.MULTILINE)
        if pinned is None:
            raise ValueError(f"{self.module} requires no k8s.io/kubernetes")
        return pinned[1]

    def is_at_least(self, name: str) -> bool:
        """Whether this is the named release or a later one."""
        return _numbers(self.name) >= _numbers(name)


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))


def releases() -> dict[str, Release]:
    """The releases that can be tested, by name, oldest first."""
    others = {file.stem.removeprefix("go-"): file for file in FOLDER.glob("go-*.mod")}
    modules = {DEFAULT: FOLDER / "go.mod"} | others
    return {name: Release(name, modules[name]) for name in sorted(modules, key=_numbers)}


KNOWN, CHOSEN = releases(), os.environ.get("K8S") or DEFAULT
if CHOSEN not in KNOWN:
    raise SystemExit(f"K8S={CHOSEN}: the tests know Kubernetes {', '.join(KNOWN)}: set K8S to one of them")
UNDER_TEST = KNOWN[CHOSEN]

HAS_RESOURCE_CLAIMS = UNDER_TEST.is_at_least("1.34")
"""Whether resource.k8s.io/v1, with its claims, is served."""
HAS_POD_LEVEL_RESOURCES = UNDER_TEST.is_at_least("1.34")
"""Whether pods have `spec.resources` without a feature gate."""
HAS_RESTART_RULES = UNDER_TEST.is_at_least("1.35")
"""Whether containers have restart rules of their own, and volumes may be images, without a feature gate."""
SHOWS_NULL_CREATION_TIMESTAMP = not UNDER_TEST.is_at_least("1.34")
"""Whether metadata without a time, such as a pod template's, is shown with `creationTimestamp: null`."""
