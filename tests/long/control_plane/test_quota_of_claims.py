"""Pods of mode dra over a quota: 200 wait in the order in which they came, and ten run at a time."""

import pytest

from kube.names import QUOTA_GATE
from testbed.process import eventually
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import POLICY, allocated, create

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
pytestmark = test_claims_of_shares.pytestmark
QUOTA, PODS = 10, 200


@pytest.fixture
def room(offer, serve, namespace):
    """Cards with more room than the quota."""
    offer([81920, 81920])
    serve(
        f"{POLICY}\nquotas: {{namespaces: {{{namespace}: {{slices: {QUOTA}}}}}, whenOverQuota: wait}}",
        "--claim-templates",
    )


def has_gate(pod):
    return any(gate["name"] == QUOTA_GATE for gate in pod["spec"].get("schedulingGates", ()))


@pytest.mark.usefixtures("room")
def test_200_pods_wait_for_a_quota_of_ten_in_order(control_plane, namespace):
    api, left = control_plane.api, [f"pod-{number:03}" for number in range(PODS)]
    for name in left:
        create(control_plane, namespace, [name])
    waiting = PODS - QUOTA
    eventually(lambda: sum(map(has_gate, api.list("Pod", namespace))) == waiting, "the others wait")

    def ended():
        """End those that run; nothing else does, so what has no gate only grows until then."""
        pods = sorted(api.list("Pod", namespace), key=lambda pod: pod["metadata"]["name"])
        let_go = [pod["metadata"]["name"] for pod in pods if not has_gate(pod)]
        assert let_go == left[: len(let_go)], "none passes another"
        assert len(let_go) <= QUOTA
        assert len(allocated(control_plane, namespace)) <= QUOTA
        for pod in pods:
            if pod["spec"].get("nodeName"):
                left.remove(pod["metadata"]["name"])
                api.delete("Pod", pod["metadata"]["name"], namespace)
        return not left

    eventually(ended, "every pod has run", seconds=1200)
