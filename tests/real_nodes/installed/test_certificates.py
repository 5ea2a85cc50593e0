"""A new certificate in the Secret is served by both webhooks without a restart."""

import ssl
import time

import pytest

from testbed.chart import RELEASE
from testbed.process import eventually
from tests.real_nodes.conftest import WORK
from tests.real_nodes.load import Load

DELIVERY_S = 120
"""More than a kubelet takes that nobody wakes up: it looks once a minute and a bit."""


@pytest.fixture
def served(installation, cluster):
    """The certificate that each webhook serves, by the pod's name."""
    forwards = {pod.name: cluster.port_forward(pod.address, 8443) for pod in installation.pods("webhook")}

    def look():
        ports = {name: int(url.rpartition(":")[2]) for name, (_, url) in forwards.items()}
        return {name: ssl.get_server_certificate(("127.0.0.1", port)) for name, port in ports.items()}

    yield look
    for process, _ in forwards.values():
        process.stop()


def test_a_new_leaf_is_served_without_a_restart(installation, cluster, served, say):
    before, pods = served(), installation.pods("webhook")
    assert len(set(before.values())) == 1
    with Load(cluster.api, WORK) as load:
        patch = '{"data":{"tls.key":null}}'  # as docs/operating/certificates.md says
        asked = time.monotonic()
        patched = installation.kubectl(
            "patch", "secret", f"{RELEASE}-tls", "--type=merge", f"--patch={patch}"
        )
        assert patched.code == 0, patched.stderr
        old = set(before.values())
        eventually(lambda: not old & set(served().values()), "both serve another leaf", DELIVERY_S)
        say(f"a new leaf is served by both webhooks after {time.monotonic() - asked:.1f} s")
    assert load.failed(labelled=True) == []
    assert load.failed(labelled=False) == []
    assert len(set(served().values())) == 1
    after = installation.pods("webhook")
    assert {(pod.uid, pod.restarts) for pod in after} == {(pod.uid, pod.restarts) for pod in pods}
