"""Templates of mode dra that come late, are deleted, or cannot be made."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from controller.claims.claim_templates import GATE_IS_OFF
from testbed import components
from testbed.api import Api, ApiError
from testbed.components import ADMIN_TOKEN
from testbed.controller_process import registered_webhook
from testbed.process import eventually
from testbed.registration import labelled_pod
from tests.control_plane import test_claims_of_shares
from tests.control_plane.test_claims_of_shares import API, create, running, templates

device_class, offer, webhook = (
    test_claims_of_shares.device_class,
    test_claims_of_shares.offer,
    test_claims_of_shares.webhook,
)
pytestmark = test_claims_of_shares.pytestmark
LARGE = 81920
AWAY = ("try again", "offers no card yet", "failed calling webhook")


def test_a_pod_whose_template_is_deleted_before_its_claim_is_made_runs(
    control_plane, namespace, offer, webhook
):
    offer([LARGE])
    create(control_plane, namespace, ["first"])
    eventually(lambda: running(control_plane, namespace) == {"first"}, "the first has its claim")
    [manager] = [each for each in control_plane.processes if each.log.stem == "kube-controller-manager"]
    with paused(manager.pid):
        create(control_plane, namespace, ["second"])
        [template] = templates(control_plane, namespace)
        uid, name = template["metadata"]["uid"], template["metadata"]["name"]
        control_plane.api.delete("ResourceClaimTemplate", name, namespace, API)
        assert len(control_plane.api.list("ResourceClaim", namespace, API)) == 1, "it has no claim"
    eventually(lambda: running(control_plane, namespace) == {"first", "second"}, "both run")
    [again] = templates(control_plane, namespace)
    assert (again["metadata"]["name"], again["metadata"]["uid"] != uid) == (name, True)


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_where_the_feature_gate_is_off_pods_are_denied_with_its_name(
    control_plane, namespace, offer, start, tmp_path
):
    """A second API server on the same etcd, which drops the amounts; the controller writes through it."""
    offer([LARGE])
    home = control_plane.home
    gate = "--feature-gates=DRAConsumableCapacity=false"
    gated, url = components.start_apiserver(home, control_plane.etcd_url, "without-the-gate", [gate])
    with gated, Api(url, str(home.ca_file), ADMIN_TOKEN) as api:
        kubeconfig = tmp_path / "kubeconfig"
        components.write_kubeconfig(home, url, kubeconfig)
        controller = start("gate", "--claim-templates", kubeconfig=kubeconfig)
        controller.until_leading()
        (tmp_path / "policies").mkdir()
        policy = f"kind: Policy\nname: default\n{test_claims_of_shares.POLICY}"
        (tmp_path / "policies" / "all.yaml").write_text(policy)
        with registered_webhook(api, namespace, controller, tmp_path, tmp_path / "policies"):
            said = eventually(lambda: denied(api, namespace), "the pod is denied for the gate")
        assert said.endswith(GATE_IS_OFF)
        assert templates(control_plane, namespace) == []


def denied(api, namespace):
    """What a pod is told that asks for a part of a card; nothing while no card is known."""
    try:
        api.create(labelled_pod("share", "0.5"), namespace)
    except ApiError as error:
        return "" if any(text in str(error) for text in AWAY) else str(error)
    raise AssertionError("a share was admitted")
