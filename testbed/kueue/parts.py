"""Kueue's manager and its manifests, from its Go module once, into a cache folder.

`python -m testbed.kueue.parts` builds what is missing and prints the folder. The version stands in `go.mod`.
"""

from pathlib import Path

from testbed import building
from testbed.binaries import go_missing
from testbed.building import Say

MODULE = Path(__file__).parent
KUEUE = "sigs.k8s.io/kueue"
MANAGER = "kueue"
MANIFESTS = "manifests"
"""Folders `crd`, `rbac` and `webhook` of the module's `config/components`, as kustomize reads them."""
MANIFEST_FOLDERS = ("crd", "rbac", "webhook")


def cache_folder() -> Path:
    """Where the parts of exactly this version belong."""
    files = (MODULE / "go.mod", MODULE / "go.sum")
    return building.folder_of("kueue", repr((KUEUE, MANAGER, MANIFESTS, MANIFEST_FOLDERS)), *files)


def build(say: Say) -> Path:
    """Build what the cache lacks, one line to `say` for each part; return the folder with both.

    Raises:
        BuildError: Go failed.
    """
    return building.make_missing("kueue", cache_folder(), MAKERS, say)


def _manager(target: Path) -> None:
    building.go("build", "-ldflags", "-s -w", "-o", str(target), f"{KUEUE}/cmd/kueue", folder=MODULE)


def _manifests(target: Path) -> None:
    """Copy what is needed; files and folders of a module are read-only."""
    building.go("mod", "download", KUEUE, folder=MODULE)
    found = building.go("list", "-m", "-f", "{{.Dir}}", KUEUE, folder=MODULE).strip()
    source = Path(found, "config", "components")
    for file in sorted(each for name in MANIFEST_FOLDERS for each in (source / name).rglob("*.yaml")):
        copied = target / file.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())


MAKERS = {MANIFESTS: _manifests, MANAGER: _manager}


if __name__ == "__main__":
    building.command(go_missing, build)
