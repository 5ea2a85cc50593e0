"""Kueue's quota of devices: what it makes of the claims of mode dra."""

import pytest

from kube.dra import CLAIM_NAME, DRIVER
from modes.claim import ClaimedShare, template_spec
from modes.fraction import Fraction
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from tests.control_plane.kueue.support import CLAIMED_GPUS, QUEUE_LABEL, is_gated, reserved

pytestmark = pytest.mark.skipif(
    not UNDER_TEST.is_at_least("1.36"), reason="this Kubernetes has DRAConsumableCapacity only behind a gate"
)
WHOLE = Fraction(8, 8)
SMALL, LARGE = Fraction(1, 8), Fraction(7, 8)


@pytest.fixture
def queue(team):
    """A queue with a quota of two claimed GPUs."""
    quota = {"name": CLAIMED_GPUS, "nominalQuota": 2}
    flavor = {"name": f"{team.namespace}-any", "resources": [quota]}
    return team.queue(0, resourceGroups=[{"coveredResources": [CLAIMED_GPUS], "flavors": [flavor]}])


def claiming(team, queue, name, share):
    """Create a pod with the claim that a share becomes."""
    metadata = {"name": name, "labels": {QUEUE_LABEL: queue}}
    api = "resource.k8s.io/v1"
    template = {"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": {"name": name}}
    team.api.create({**template, "spec": template_spec(share)}, team.namespace)
    container = {"name": "main", "image": "train", "resources": {"claims": [{"name": CLAIM_NAME}]}}
    claims = [{"name": CLAIM_NAME, "resourceClaimTemplateName": name}]
    spec = {"containers": [container], "resourceClaims": claims, "terminationGracePeriodSeconds": 0}
    team.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, team.namespace)


def let_go(team):
    """Names of the pods that Kueue does not hold back."""
    pods = team.api.list("Pod", team.namespace)
    return sorted(pod["metadata"]["name"] for pod in pods if not is_gated(pod))


def test_a_fraction_counts_as_a_whole_gpu_however_small_it_is(team, queue):
    """Why the page says that Kueue has no quota for shares of mode dra."""
    claiming(team, queue, "small", ClaimedShare(DRIVER, SMALL))
    claiming(team, queue, "large", ClaimedShare(DRIVER, LARGE))
    eventually(lambda: let_go(team) == ["large", "small"], "both go")
    eventually(lambda: reserved(team.api, queue).get(CLAIMED_GPUS) == 2, "each counts as one GPU")
