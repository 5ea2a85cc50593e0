"""Mode dra while pods come and go and what it relies on is away: no card is ever held over its memory."""

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from kube.names import RESOURCE_SLICES_PATH
from testbed.api import ApiError
from testbed.controller_process import gpu_ledger, registered_webhook
from testbed.process import eventually
from testbed.registration import asking_for_memory, labelled_pod
from tests.control_plane import test_claims_of_shares
from tests.long.control_plane.claim_watch import ClaimWatch

device_class, offer = test_claims_of_shares.device_class, test_claims_of_shares.offer
pytestmark = test_claims_of_shares.pytestmark

EIGHTHS = [f"{slices / 8:g}" for slices in range(1, 9)]
PODS = int(os.environ.get("CHURNED_PODS", "600"))
AT_ONCE, ALIVE, CLIENTS = 25, 60, 4
SMALL, LARGE = 40960, 81920
ODD = tuple(range(1431, LARGE, 1999))
"""MiB; a namespace may have 128 different shares at once."""
AWAY = ("try again", "offers no card yet", "failed calling webhook")
KILLS = 12


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


class Driver:
    """A node's driver by its ResourceSlice, which the kubelet deletes when the driver is gone for a while."""

    def __init__(self, api, node):
        self.api, self.node, self.path = api, node, f"{RESOURCE_SLICES_PATH}/{node}-claims"

    def kill(self):
        self.written = self.api.call("GET", self.path)
        self.api.call("DELETE", self.path)

    def start_again(self):
        def gone():
            return not (gpu_ledger(self.api, self.node) or {}).get("cards")

        eventually(gone, "the controller has seen it")
        metadata = {"name": self.written["metadata"]["name"]}
        self.api.call("POST", RESOURCE_SLICES_PATH, {**self.written, "metadata": metadata})


def held_by_ledgers(api, nodes):
    """MiB of each pod on each card, as the GpuLedgers say."""
    return Counter(
        {
            (node, card["device"], share["pod"]): share["memoryMiB"]
            for node in nodes
            for card in (gpu_ledger(api, node) or {}).get("cards", [])
            for share in card.get("shares", [])
        }
    )


def test_no_card_is_held_over_its_memory_while_pods_churn_and_processes_are_killed_in_turn(  # noqa: PLR0913, PLR0917 fixtures
    control_plane, namespace, offer, start, policies, tmp_path
):
    sizes = [[SMALL, SMALL], [SMALL, LARGE], [LARGE, LARGE]]
    names = offer(*sizes)
    cards = {
        (name, f"gpu-{at}"): mib
        for name, of_node in zip(names, sizes, strict=True)
        for at, mib in enumerate(of_node)
    }
    controllers = first, second = [
        start(name, "--claim-templates", f"--policies={policies}") for name in ("a", "b")
    ]
    eventually(lambda: any(each.leads for each in controllers), "one leads")
    churn = Churn(control_plane.api, namespace)
    with (
        registered_webhook(control_plane.api, namespace, first, tmp_path, policies) as webhook,
        ClaimWatch(control_plane, namespace, cards) as watch,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        kills = [first, webhook, second, Driver(control_plane.api, names[-1])] * (KILLS // 4)
        for begin in range(0, PODS, AT_ONCE):
            pods = [churn.pod(f"pod-{number}") for number in range(begin, min(begin + AT_ONCE, PODS))]
            made = clients.map(churn.create, pods)
            if kills and begin >= PODS * (KILLS - len(kills)) // KILLS:
                killed = kills.pop()
                killed.kill()
                killed.start_again()
            list(made)
            churn.until_alive(ALIVE)
        eventually(
            lambda: held_by_ledgers(control_plane.api, names) == watch.held_by_pods(),
            "the GpuLedgers say what the claims hold",
        )
        churn.until_alive(0)
        watch.until_released()
    assert watch.wrong == []
    assert not kills, "each process was killed three times"
    assert len(watch.granted) == PODS, "each pod had its share"
    assert sum(watch.most.values()) > sum(cards.values()) * 3 / 4, "the cards were filled"
