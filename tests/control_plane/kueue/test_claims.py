"""Kueue's quota of what devices have: what it makes of the claims of mode dra."""

import pytest

from kube.dra import CLAIM_NAME, DRIVER, SHARES_OF_CARD
from modes.claim import ClaimedShare, template_spec
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from testbed.kubernetes_version import UNDER_TEST
from testbed.process import eventually
from tests.control_plane.kueue.support import CLAIMED, QUEUE_LABEL, is_gated, reserved
from tests.control_plane.offered_cards import device_class, offer

__all__ = ["device_class", "offer"]

pytestmark = pytest.mark.skipif(
    not UNDER_TEST.is_at_least("1.36"), reason="this Kubernetes has DRAConsumableCapacity only behind a gate"
)
EIGHTH, HALF, WHOLE = Fraction(1, 8), Fraction(4, 8), Fraction(8, 8)
PAIR = Fraction(8, 8, parts=2)
LARGE = GpuKinds(("A100-SXM4-80GB",))


@pytest.fixture
def queue(team, offer):
    """A queue with a quota of two cards of three."""
    offer([81920, 81920, 40960])
    quota = {"name": CLAIMED, "nominalQuota": 2 * SHARES_OF_CARD}
    flavor = {"name": f"{team.namespace}-any", "resources": [quota]}
    return team.queue(0, resourceGroups=[{"coveredResources": [CLAIMED], "flavors": [flavor]}])


def claiming(team, queue, name, share):
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


def test_shares_count_by_their_part_of_a_card(team, queue):
    claiming(team, queue, "eighth", ClaimedShare(DRIVER, EIGHTH))
    claiming(team, queue, "model", ClaimedShare(DRIVER, HALF, kinds=LARGE))
    claiming(team, queue, "pair", ClaimedShare(DRIVER, PAIR))
    eventually(lambda: let_go(team) == ["eighth", "model", "pair"], "all go")
    eventually(lambda: reserved(team.api, queue).get(CLAIMED) == 1_625_000, "each counts by its part")
    claiming(team, queue, "whole", ClaimedShare(DRIVER, WHOLE))
    eventually(lambda: "insufficient unused quota" in team.why_not("whole"), "a whole card is too much")
    assert let_go(team) == ["eighth", "model", "pair"]


def test_gpu_memory_is_never_admitted(team, queue):
    share = ClaimedShare(DRIVER, Fraction(2, 8, mib=10240), (40960, 81920))
    claiming(team, queue, "memory", share)
    claiming(team, queue, "eighth", ClaimedShare(DRIVER, EIGHTH))
    eventually(lambda: let_go(team) == ["eighth"], "only the fraction goes")
