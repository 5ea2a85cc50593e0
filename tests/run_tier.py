"""Run a tier beside `make test`: build what it needs, run its files, and a file that failed once more, alone.

`python -m tests.run_tier cluster|nodes|long`, and what else pytest shall know. A file that passes alone is
named at the end. If it is named twice in ten runs, repair it or take it out of the tier.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.effort import CHOSEN, whose_day
from tests.tiers import FOLDERS, ROOT, tier_of

BUILT = {
    "cluster": ("testbed.binaries", "testbed.kueue.parts"),
    "nodes": ("testbed.binaries", "testbed.nodes.parts", "testbed.nvidia.parts"),
}
"""Modules whose command builds what the files of a tier need, without a limit of time, into a cache."""
LONG = {"control_plane": "cluster", "real_nodes": "nodes", "agent_nodes": "nodes"}
"""Tiers whose programs the folders of long tests need."""
PROGRAMS = {
    "buildah": "buildah",
    "chromium": "chromium",
    "gcc": "gcc libc6-dev",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "pkg-config": "pkg-config",
    "podman": "podman runc busybox-static",
    "promtool": "prometheus",
    "unshare": "util-linux",
}
"""What tests on nodes run, and Debian's packages that have it."""
WORKERS = {"cluster": "3", "nodes": "3", "long": "2"}
"""Tests on control planes and nodes wait most of their time."""
MOST_UNSTABLE = 6
"""Files that failed; more of them are no accident."""
TESTS_FAILED = 1


def why_not() -> str | None:
    """Return why the tier of nodes cannot run here; None if it can."""
    missing = sorted(name for name in PROGRAMS if shutil.which(name) is None)
    if missing:
        packages = " ".join(PROGRAMS[name] for name in missing)
        return f"{', '.join(missing)} not found: apt-get install --no-install-recommends {packages}"
    return None if os.geteuid() == 0 else "nodes are made by root alone"


def paths_of(tier: str, part: str) -> list[str]:
    """Return what pytest collects; of the long tier a part, and what others try in full there."""
    if tier != "long":
        return list(FOLDERS[tier])
    folders = [ROOT / "tests" / each / part for each in ("", "programs", "long")]
    files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if takes_turns(file)]


def takes_turns(file: Path) -> bool:
    """Whether a file belongs to the long tier, or tries more there."""
    return tier_of(file) == "long" or any(word in file.read_text() for word in ("by_turns(", "examples("))


def tiers_of(paths: Iterable[str]) -> set[str | None]:
    """Return the tiers whose programs files and folders need."""
    return {
        LONG.get(Path(path).parts[2]) if path.startswith("tests/long/") else tier_of(ROOT / path)
        for path in paths
    }


def built_for(paths: Iterable[str]) -> list[str]:
    """Return the modules that build what files and folders need, each once."""
    tiers = tiers_of(paths)
    return list(dict.fromkeys(module for tier in BUILT if tier in tiers for module in BUILT[tier]))


def run(cache: Path, arguments: Sequence[str], part: str) -> tuple[int, list[str]]:
    """Run pytest; return its exit status and the tests that failed."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    regime = {"REGIME": part} if part else {}
    status = subprocess.run(command, cwd=ROOT, env={**os.environ, **regime}, check=False).returncode
    failed = cache / "v" / "cache" / "lastfailed"
    return status, list(json.loads(failed.read_text())) if failed.exists() else []


def by_file(failed: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for nodeid in failed:
        file, _, test = nodeid.partition("::")
        found.setdefault(file, test)
    return found


def tried_again(first: dict[str, str], part: str) -> list[str]:
    """Run each file alone, with fixtures of its own; return those that fail again."""
    failing = []
    for file in first:
        with tempfile.TemporaryDirectory() as cache:
            status, _ = run(Path(cache), [file], part)
        failing += [file] if status else []
    return failing


def main(tier: str, *arguments: str) -> int:
    part = (CHOSEN or whose_day(datetime.now(UTC).date())) if tier == "long" else ""
    paths = paths_of(tier, part)
    reason = why_not() if "nodes" in tiers_of(paths) else None
    if reason is not None:
        sys.stderr.write(f"tests of {tier}: {reason}\n")
        return 2
    for module in built_for(paths):
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True)
    spread = [f"--numprocesses={WORKERS[tier]}", "--dist=loadfile", "--no-loadscope-reorder"]
    with tempfile.TemporaryDirectory() as cache:
        status, failed = run(Path(cache), [*spread, *paths, *arguments], part)
    first = by_file(failed)
    if status != TESTS_FAILED or not first or len(first) > MOST_UNSTABLE:
        return status
    again = tried_again(first, part)
    for file, test in first.items():
        state = "failed twice" if file in again else "unstable"
        sys.stdout.write(f"{state}: {file}, first failure: {test}\n")
    return TESTS_FAILED if again else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
