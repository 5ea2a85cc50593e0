"""How workers share the tests: file by file, and at last all that need a cluster go to one of them.

The control plane, the nodes and the image are each made once a process and take most of a machine.
"""

from __future__ import annotations

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

ON_A_CLUSTER = ("tests/control_plane/", "tests/cluster/", "tests/image/")


class ClusterTestsTogether(LoadScopeScheduling):
    """Gives a file to one worker, and all tests on a cluster to one."""

    def _split_scope(self, nodeid: str) -> str:
        return "on a cluster" if nodeid.startswith(ON_A_CLUSTER) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ClusterTestsTogether | None:
    """Share out by this rule where files are to stay together."""
    return ClusterTestsTogether(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs a cluster last: what is quick to fail comes first."""
    items.sort(key=lambda item: item.nodeid.startswith(ON_A_CLUSTER))
