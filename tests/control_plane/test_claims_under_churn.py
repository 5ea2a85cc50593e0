"""Mode dra while pods come and go and what it relies on is away: no card is ever held over its memory."""

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from controller.claims.claim_templates import GATE_IS_OFF
from testbed import components
from testbed.api import Api, ApiError
from testbed.components import ADMIN_TOKEN
from testbed.controller_process import SHORT_LEASE, Controller, registered_webhook, write_tls
from testbed.process import eventually
from testbed.registration import asking_for_memory, labelled_pod
from tests.control_plane import test_claims_of_shares
from tests.control_plane.claim_watch import ClaimWatch
from tests.control_plane.test_claims_of_shares import API, create, running, templates
from tests.effort import by_turns

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
start, webhook = test_claims_of_shares.start, test_claims_of_shares.webhook
more_options = test_claims_of_shares.more_options
pytestmark = test_claims_of_shares.pytestmark

EIGHTHS = [f"{slices / 8:g}" for slices in range(1, 9)]
PODS = int(os.environ.get("FRACTION_INJECTOR_PODS", by_turns("control_plane", usual=150, full=600)))
AT_ONCE, ALIVE, CLIENTS = 25, 60, 4
SMALL, LARGE = 40960, 81920
ODD = tuple(range(1431, LARGE, 1999))
"""MiB; a namespace may have 128 different shares at once."""
AWAY = ("try again", "offers no card yet", "failed calling webhook")


@pytest.fixture
def policies(tmp_path):
    """Every eighth, and memory to the MiB."""
    folder = tmp_path / "policies"
    folder.mkdir()
    fractions = ", ".join(f"'{label}': {slices}" for slices, label in enumerate(EIGHTHS, 1))
    text = f"{{kind: Policy, name: default, resources: {{mode: dra}}, fractions: {{{fractions}}},"
    (folder / "all.yaml").write_text(text + " memory: {allowed: true}}")
    return folder


class Churn:
    """Pods of all sizes, a third of them in odd MiB; only pods that run are deleted."""

    def __init__(self, api, namespace):
        self.api, self.namespace = api, namespace
        self.rng = random.Random(1)  # noqa: S311 - a repeatable experiment, no secret

    def pod(self, name):
        if self.rng.random() < 1 / 3:
            pod = asking_for_memory(f"{self.rng.choice(ODD)}Mi", name)
        else:
            pod = labelled_pod(name, self.rng.choice(EIGHTHS))
        pod["spec"]["terminationGracePeriodSeconds"] = 0
        return pod

    def create(self, pod):
        """Repeat it where nobody decides at the moment."""

        def created():
            try:
                self.api.create(pod, self.namespace)
            except ApiError as error:
                if any(text in str(error) for text in AWAY):
                    return False
                raise
            return True

        eventually(created, f"{pod['metadata']['name']} is created")

    def until_alive(self, most):
        """Delete pods that run until so many are left."""

        def left():
            pods = self.api.list("Pod", self.namespace)
            ran = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
            chosen = self.rng.sample(ran, (len(ran) + 1) // 2) if len(pods) > most else []
            for name in chosen:
                self.api.delete("Pod", name, self.namespace)
            return len(pods) - len(chosen) <= most

        eventually(left, f"{most} pods are left")


@pytest.mark.timeout(2400, func_only=True)
def test_no_card_is_held_over_its_memory_while_pods_churn_and_controllers_are_killed_in_turn(  # noqa: PLR0913, PLR0917 fixtures
    control_plane, namespace, offer, start, policies, tmp_path
):
    sizes = [[SMALL, SMALL], [SMALL, LARGE], [LARGE, LARGE]]
    names = offer(*sizes)
    cards = {
        (name, f"gpu-{at}"): mib
        for name, of_node in zip(names, sizes, strict=True)
        for at, mib in enumerate(of_node)
    }
    controllers = first, second = start("a"), start("b")
    eventually(lambda: any(each.leads for each in controllers), "one leads")
    churn = Churn(control_plane.api, namespace)
    kills = [second, first, second, first]
    with (
        registered_webhook(control_plane.api, namespace, first, tmp_path, policies),
        ClaimWatch(control_plane, namespace, cards) as watch,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        for begin in range(0, PODS, AT_ONCE):
            pods = [churn.pod(f"pod-{number}") for number in range(begin, min(begin + AT_ONCE, PODS))]
            made = clients.map(churn.create, pods)
            if kills and begin >= PODS * (5 - len(kills)) // 6:
                killed = kills.pop()
                killed.kill()
                killed.start_again()
            list(made)
            churn.until_alive(ALIVE)
        churn.until_alive(0)
        watch.until_released()
    assert watch.wrong == []
    assert not kills, "each controller was killed twice"
    assert len(watch.granted) == PODS, "each pod had its share"
    assert sum(watch.most.values()) > sum(cards.values()) * 3 / 4, "the cards were filled"


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


def test_the_first_pods_of_a_namespace_that_is_made_later_run(control_plane, namespace, offer, webhook):
    offer([LARGE])
    create(control_plane, namespace, ["pod"])
    fresh = f"{namespace}-fresh"
    control_plane.create_namespace(fresh)
    try:
        for name in ("one", "two"):
            control_plane.api.create(labelled_pod(name, "0.25"), fresh)
        eventually(lambda: running(control_plane, fresh) == {"one", "two"}, "both run")
        assert len(templates(control_plane, fresh)) == 1
    finally:
        control_plane.api.delete("Namespace", fresh)
        control_plane.api.delete_all("Pod", fresh)


def test_where_the_feature_gate_is_off_pods_are_denied_with_its_name(
    control_plane, namespace, offer, policies, tmp_path
):
    """A second API server on the same etcd, which drops the amounts; the controller writes through it."""
    offer([LARGE])
    home = control_plane.home
    gate = "--feature-gates=DRAConsumableCapacity=false"
    gated, url = components.start_apiserver(home, control_plane.etcd_url, "without-the-gate", [gate])
    with gated, Api(url, str(home.ca_file), ADMIN_TOKEN) as api:
        kubeconfig = tmp_path / "kubeconfig"
        components.write_kubeconfig(home, url, kubeconfig)
        tls = write_tls(tmp_path / "tls")
        options = [*SHORT_LEASE, "--claim-templates"]
        with Controller(kubeconfig, tmp_path, tls, f"gate-{namespace}", more=options) as controller:
            controller.until_leading()
            with registered_webhook(api, namespace, controller, tmp_path, policies):
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
