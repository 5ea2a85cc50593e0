"""Real nodes: whether there can be any, the product's image, and logs of a test that failed."""

from pathlib import Path

import pytest

from testbed import image as images
from testbed.nodes import parts, sandbox
from testbed.nodes.cluster import RealCluster
from testbed.nvidia import parts as nvidia_parts
from testbed.process import tail
from testbed.registration import OWN_NAMESPACE

ON_NODES = {"real_nodes", "agent_nodes"}
"""Folders, also of long tests."""
CLUSTER = pytest.StashKey[RealCluster]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ON_NODES & {*item.path.parts}:
            # Every wait of the fixtures has its own end.
            item.add_marker(pytest.mark.timeout(900, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    cluster = item.config.stash.get(CLUSTER, None)
    if report.failed and cluster is not None:
        report.sections += [(f"end of {log.parent.name}/{log.name}", tail(log, 8)) for log in cluster.logs()]
        for pod in cluster.kubectl(
            "get", "pods", f"--namespace={OWN_NAMESPACE}", "--output=name"
        ).stdout.split():
            lines = cluster.kubectl("logs", pod, f"--namespace={OWN_NAMESPACE}", "--tail=15").stdout
            report.sections.append((f"end of the log of {pod}", lines))
    return report


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """Say at once why no node can be made here."""
    reason = parts.why_not() or nvidia_parts.why_not() or sandbox.why_not() or images.why_not()
    if reason:
        pytest.fail(reason)


@pytest.fixture(scope="session")
def image(possible) -> Path:
    return images.archive()
