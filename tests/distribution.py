"""How workers share the tests: file by file, those on real nodes first and those on a control plane last.

Tests on real nodes wait for kubelets most of their time. They start first, on workers beyond one for each
core, and the others fill the cores meanwhile. A control plane is made once a worker. The two nodes of
`tests/real_nodes/` and what is installed on them are one for all files but those below, so that one worker
takes all of these files; so it is with the image, and with what is installed for a folder of tests on a
control plane. Files with nodes of their own go to two other workers, one after the other. `SHUFFLE=SEED` in
the environment runs the files in a random order: what passes only behind another fails.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

NODES, IMAGE, CONTROL_PLANE = "tests/real_nodes/", "tests/image/", "tests/control_plane/"
LONGEST = f"{CONTROL_PLANE}test_controller_certificates.py"
"""Takes minutes: behind the other files of its folder one worker would end alone with it."""
LAST = (IMAGE, LONGEST, CONTROL_PLANE)
"""In this order; single files fill the end."""
SEED = os.environ.get("SHUFFLE", "")
SECOND_LOCK = f"{CONTROL_PLANE}admission_policies/"
SECOND_HALF = f"{SECOND_LOCK}test_d"
"""Begins the second half of that folder, the longest on a control plane: two workers can take it."""
FOLDERS = (NODES, IMAGE, SECOND_LOCK, f"{CONTROL_PLANE}controller_writes/", f"{CONTROL_PLANE}kueue/")
"""Their files share what takes long to make and is taken away when a worker turns to another folder."""
WITH_NODES_OF_ITS_OWN = {
    f"{NODES}test_{name}.py": together
    for together, names in {
        "agents of the chart": ("agent_chart", "gpu_operator", "k3s"),
        "agents without a chart": ("agent", "agent_pod_features", "leftovers", "unequal_cards"),
    }.items()
    for name in names
}
"""The scope of each of these files: it makes a cluster, and either scope takes as long as the shared one."""
WAITING_WORKERS = 2
"""Workers beyond one for each core. On two cores three of four take real nodes first, at a third of a core
each, and one does the rest meanwhile."""


def scope(nodeid: str) -> str:
    """Return what a worker runs with a test: its file, or all files that share nodes, image or release."""
    file = nodeid.partition("::")[0]
    if file.startswith(SECOND_LOCK):
        return f"{SECOND_LOCK}{'first' if file < SECOND_HALF else 'second'} half"
    shared = file.rpartition("/")[0] if file.startswith(FOLDERS) else file
    return WITH_NODES_OF_ITS_OWN.get(file, shared)


class FileByFile(LoadScopeScheduling):
    """Gives each scope to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileByFile | None:
    """Share out by this rule where files are to stay together."""
    return FileByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Add the workers that wait to xdist's number, where whole files are shared."""
    cores = yield
    return cores + WAITING_WORKERS if config.getoption("dist") == "loadfile" else cores


def pytest_report_header() -> str | None:
    """Name the order, so that it can be repeated."""
    return f"files in the random order of SHUFFLE={SEED}" if SEED else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what waits longest, and put last what needs a control plane."""
    if SEED:
        items[:] = shuffled(items, SEED)
        return
    items.sort(key=lambda item: rank(item.nodeid))


def rank(nodeid: str) -> int:
    """Return a test's place in the order: shared nodes, nodes of a file's own, all others, then `LAST`."""
    if nodeid.startswith(NODES):
        return -1 if nodeid.partition("::")[0] in WITH_NODES_OF_ITS_OWN else -2
    return next((1 + at for at, of in enumerate(LAST) if nodeid.startswith(of)), 0)


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return tests with their scopes in a random order, the same for each worker."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope(item.nodeid), []).append(item)
    order = sorted(scopes)
    random.Random(seed).shuffle(order)  # noqa: S311 an order, no secret
    return [item for each in order for item in scopes[each]]
