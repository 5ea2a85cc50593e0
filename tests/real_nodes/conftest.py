"""The product on two real nodes: webhook and controller as pods from the image, for all of this folder.

The tests run in the order of their files' names: what was just installed first, what takes it out last.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import binaries
from testbed import image as images
from testbed.chart import Helm
from testbed.nodes import parts, sandbox
from testbed.nodes.cluster import RealCluster
from testbed.nvidia import parts as nvidia_parts
from testbed.process import tail
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.installation import VALUES, Installation

HERE = Path(__file__).parent
CLUSTER = pytest.StashKey[RealCluster]()
WORK = "work"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
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
    """Archive of the product's image."""
    return images.archive()


@pytest.fixture(scope="package")
def cluster(possible, image: Path, say: Say, pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """Two nodes of two GPUs each, and a namespace for tasks."""
    built, node_parts = binaries.build(say), parts.build(say)
    with RealCluster(built, node_parts, nodes=2, archives=[image]) as cluster:
        pytestconfig.stash[CLUSTER] = cluster
        cluster.create_namespace(WORK)
        yield cluster
        pytestconfig.stash[CLUSTER] = None


@pytest.fixture(scope="package")
def installation(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The chart, installed as docs/getting-started/install.md says, with both processes ready."""
    helm = Helm(cluster, tmp_path_factory.mktemp("helm"))
    cluster.create_namespace(OWN_NAMESPACE)
    installation = Installation(cluster, helm)
    installation.install(VALUES)
    return installation
