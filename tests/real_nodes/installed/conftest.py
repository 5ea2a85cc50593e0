"""The product on two real nodes: webhook and controller as pods from the image, for all of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import binaries
from testbed.chart import Helm
from testbed.nodes import parts
from testbed.nodes.cluster import RealCluster
from testbed.registration import OWN_NAMESPACE
from tests.conftest import Say
from tests.real_nodes.conftest import CLUSTER
from tests.real_nodes.installation import VALUES, Installation
from tests.real_nodes.pods import WORK


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
