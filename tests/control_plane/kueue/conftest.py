"""Kueue's own manager next to the control plane, set up as docs/operating/kueue.md says."""

from collections.abc import Iterator

import pytest

from testbed.kubernetes_version import HAS_RESOURCE_CLAIMS
from testbed.kueue import parts
from testbed.kueue.manager import kueue
from testbed.kueue.manifests import MANAGED
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane.kueue import page
from tests.control_plane.kueue.support import QUEUE_LABEL, Team, delete_jobs, is_gated

FAIR = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}


@pytest.fixture(scope="package")
def manager(control_plane, say, tmp_path_factory) -> Iterator[None]:
    """Kueue with the page's Configuration, its part for mode dra, and fair sharing."""
    folder = tmp_path_factory.mktemp("kueue")
    settings = {**page.settings(), "fairSharing": FAIR}
    if HAS_RESOURCE_CLAIMS:
        claims = page.settings("shares of claims")
        settings |= {**claims, "resources": settings["resources"] | claims["resources"]}
    with kueue(control_plane, parts.build(say), folder, settings):
        yield


@pytest.fixture
def apply(control_plane, manager):
    """Apply YAML as an administrator does; it is deleted when the test ends."""
    applied = []

    def run(text):
        ended = control_plane.kubectl("apply", "--filename=-", stdin=text)
        assert ended.code == 0, ended.stderr
        applied.append(text)

    yield run
    # Kueue lets a flavor go after all queues that name it; the next test may create both again.
    for waiting in ("--wait=false", "--timeout=180s"):
        for text in applied:
            ended = control_plane.kubectl("delete", "--ignore-not-found", waiting, "--filename=-", stdin=text)
            assert ended.code == 0, ended.stderr


@pytest.fixture
def managed(control_plane, apply, namespace):
    """The test's namespace, which Kueue sees to; its pods go before the queues, which else wait for them."""
    control_plane.api.patch("Namespace", namespace, {"metadata": {"labels": MANAGED}})
    pod = labelled_pod("probe")
    pod["metadata"]["labels"] = {QUEUE_LABEL: "none"}
    eventually(
        lambda: is_gated(control_plane.api.create(pod, namespace, dry_run=True)),
        "Kueue sees to the namespace",
    )
    yield namespace
    delete_jobs(control_plane, namespace)
    control_plane.api.delete_all("Pod", namespace)
    eventually(lambda: not control_plane.api.list("Pod", namespace), "the pods are gone")


@pytest.fixture
def team(control_plane, managed, apply) -> Team:
    return Team(control_plane.api, managed, apply)
