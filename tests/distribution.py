"""How workers share the tests: file by file, those on real nodes first and those on a control plane last.

Tests on real nodes wait for kubelets most of their time. They start first, on workers beyond one for each
core, and the others fill the cores meanwhile. A control plane is made once a worker. The two nodes of
`tests/real_nodes/` and what is installed on them are one for all files but those below, so that one worker
takes all of these files; so it is with the image. Files with nodes of their own go to another worker, one
after the other. `SHUFFLE=SEED` in the environment runs the files in a random order: what passes only behind
another fails.
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
WITH_NODES_OF_ITS_OWN = tuple(
    f"{NODES}test_{name}.py"
    for name in ("agent", "agent_chart", "agent_pod_features", "gpu_operator", "leftovers", "unequal_cards")
)
OF_THEIR_OWN = "nodes of their own"
"""The scope of these files: each makes a cluster, and two at once beside the shared one fill the cores."""
WAITING_WORKERS = 2
"""Workers beyond one for each core: one for the shared nodes, one for files that have nodes of their own."""


def scope(nodeid: str) -> str:
    """Return what a worker runs with a test: its file, or all files that share the nodes or the image."""
    file = nodeid.partition("::")[0]
    if file in WITH_NODES_OF_ITS_OWN:
        return OF_THEIR_OWN
    return file.rpartition("/")[0] if file.startswith((NODES, IMAGE)) else file


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
        return -1 if scope(nodeid) == OF_THEIR_OWN else -2
    return next((1 + at for at, of in enumerate(LAST) if nodeid.startswith(of)), 0)


def shuffled(items: list[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return tests with their scopes in a random order, the same for each worker."""
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scopes.setdefault(scope(item.nodeid), []).append(item)
    order = sorted(scopes)
    random.Random(seed).shuffle(order)  # noqa: S311 an order, no secret
    return [item for each in order for item in scopes[each]]
