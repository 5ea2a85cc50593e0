"""A rolling update of the webhook that the chart registers, again and again under load."""

import base64
import threading
from functools import partial

import pytest

from testbed.api import ApiError
from testbed.balancer import Balancer
from testbed.chart import Helm
from testbed.controller_process import write_tls
from testbed.gpu_nodes import GpuNode
from testbed.process import eventually
from testbed.product import INJECTED, Webhook, decides, passes_by
from testbed.registration import OWN_NAMESPACE, labelled_pod, probe

UPDATES = 20
CLIENTS = 2
SERVES_ON = "--stop-delay=0.5"
"""Seconds after SIGTERM; the balancer looks ten times a second, kube-proxies take longer."""


@pytest.fixture
def replicas(setup, nodes, tmp_path):
    """Two webhook processes with one certificate, as the chart's Deployment has them."""
    nodes(GpuNode(gpus=8))
    tls = write_tls(tmp_path / "tls")
    started = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        started.append(Webhook(setup(), folder, [f"--tls-dir={tls}", SERVES_ON], tls / "ca.crt"))
    yield started
    for webhook in started:
        webhook.stop()


@pytest.fixture
def address(replicas, control_plane, namespace, tmp_path):
    """The chart, installed with the one address of both."""
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)
    helm = Helm(control_plane, tmp_path)
    with Balancer({webhook.port: webhook.is_ready for webhook in replicas}) as balancer:
        helm.apply(
            {
                "webhook": {"url": balancer.url, "caBundle": base64.b64encode(replicas[0].ca_pem).decode()},
                "tls": {"mode": "existing-secret"},
                "controller": {"enabled": False},
            }
        )
        eventually(lambda: decides(probe(control_plane.api, namespace)), "the webhook takes effect")
        yield
        helm.uninstall()
        eventually(lambda: passes_by(probe(control_plane.api, namespace)), "it is out of effect")


def test_no_create_fails_in_rolling_updates(address, replicas, control_plane, namespace):
    over = threading.Event()
    results = [[] for _ in range(CLIENTS)]
    clients = [
        threading.Thread(target=create_until, args=(over, control_plane.api, namespace, result))
        for result in results
    ]
    for client in clients:
        client.start()
    for number in range(UPDATES):
        replica = replicas[number % len(replicas)]
        before = len(results[0])
        replica.stop()
        replica.start_again()
        eventually(partial(more_than, results[0], before + 5), "creates go on")
    over.set()
    for client in clients:
        client.join()
    outcomes = [outcome for result in results for outcome in result]
    assert len(outcomes) > UPDATES
    assert set(outcomes) == {"injected"}


def more_than(result, number):
    return len(result) > number


def create_until(over, api, namespace, result):
    """Create labelled pods one after the other, in dry runs: they take the same way and leave nothing."""
    while not over.is_set():
        try:
            made = api.create(labelled_pod("load"), namespace, dry_run=True)
        except ApiError as error:
            result.append(str(error))
        else:
            result.append("injected" if INJECTED in made["metadata"]["annotations"] else "not injected")
