"""An installation whose controller issues certificates, with Secrets as the kubelet mounts them."""

import base64
import re
import ssl
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from testbed import plain_http
from testbed.api import Api
from testbed.balancer import Balancer
from testbed.controller_process import SHORT_LEASE, install_crd
from testbed.gpu_nodes import GpuNode
from testbed.mounts import SecretMounts
from testbed.process import Process, eventually, free_ports
from testbed.product import COMMAND, GRACE_S, POLICIES, Setup, decides
from testbed.registration import API, KIND, configuration, probe

NAME = "rotating"
FAST = ("--ca-settle=8", "--ca-keep=3", "--ca-retry=0.3")


@dataclass
class Installation:
    """Secrets, webhook configuration, two webhooks, a controller that issues for them.

    Attributes:
        api: The first API server.
        namespace: Where the Secrets are.
        ports: TLS and health ports of the two webhooks and the controller.
        mounts: Directory of each, in the same order.
    """

    api: Api
    kubeconfig: Path
    namespace: str
    ports: list[tuple[int, int]]
    mounts: list[Path]
    folder: Path

    def start_webhook(self, number: int) -> Process:
        setup = Setup(POLICIES, controller=f"https://localhost:{self.ports[2][0]}")
        port, health_port = self.ports[number]
        options = [f"--port={port}", f"--health-port={health_port}", f"--tls-dir={self.mounts[number]}"]
        more = ["--require-injected-ca", "--stop-delay=0"]
        command = [COMMAND, "webhook", *options, *more, *setup.options]
        return Process(command, self.folder / f"webhook-{number}.log", grace_s=GRACE_S)

    def start(self) -> Process:
        port, health_port = self.ports[2]
        options = [f"--port={port}", f"--health-port={health_port}", f"--tls-dir={self.mounts[2]}"]
        names = ["--tls-name=localhost", "--tls-name=127.0.0.1", f"--issue-certificates={NAME}"]
        where = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        where += [f"--lease={NAME}-controller", f"--policies={POLICIES}"]
        dialled = [f"--webhook-endpoint=127.0.0.1:{port}" for port, _ in self.ports[:2]]
        command = [COMMAND, "controller", *options, *names, *where, *dialled, *FAST, *SHORT_LEASE]
        return Process([*command, "--stop-delay=0"], self.folder / "controller.log", grace_s=GRACE_S)

    def ready(self, number: int) -> bool:
        return plain_http.is_ready(self.ports[number][1])

    def metrics(self, number: int) -> str:
        """Of a webhook or the controller; nothing while it does not answer."""
        try:
            return plain_http.get(f"http://127.0.0.1:{self.ports[number][1]}/metrics").text
        except httpx.TransportError:
            return ""

    def follows(self, number: int) -> bool:
        """Whether a webhook knows nodes from the controller; other tests' may be among them."""
        nodes = r"^fraction_injector_snapshot_nodes (\S+)$"
        return any(float(count) >= 1 for count in re.findall(nodes, self.metrics(number), re.MULTILINE))

    def secret(self, suffix: str) -> dict[str, bytes]:
        data = self.api.get("Secret", f"{NAME}-{suffix}", self.namespace).get("data") or {}
        return {name: base64.b64decode(value) for name, value in data.items()}

    def bundle(self) -> bytes:
        entry = self.api.get(KIND, NAME, api=API)["webhooks"][0]
        return base64.b64decode(entry["clientConfig"].get("caBundle", ""))

    def phase(self) -> str:
        """Where the controller says that the rotation is; empty while it does not answer."""
        now = r'^fraction_injector_rotation_phase{phase="(.*)"} 1.0$'
        return "".join(re.findall(now, self.metrics(2), re.MULTILINE)[:1])


@pytest.fixture
def installation(control_plane, namespace, nodes, tmp_path):
    """An installation from empty Secrets, its webhooks running and waiting."""
    nodes(GpuNode(gpus=8))
    install_crd(control_plane.api)
    for suffix in ("ca", "tls"):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{NAME}-{suffix}"}}
        control_plane.api.create(secret, namespace)
    ports = free_ports(6)
    mounts = [tmp_path / f"mount-{number}" for number in range(3)]
    found = Installation(
        control_plane.api,
        control_plane.kubeconfig,
        namespace,
        list(zip(ports[::2], ports[1::2], strict=True)),
        mounts,
        tmp_path,
    )
    with ExitStack() as stack:
        stack.enter_context(SecretMounts(control_plane.api, f"{NAME}-tls", namespace, *mounts))
        for number in (0, 1):
            stack.enter_context(found.start_webhook(number))
        health = {found.ports[number][0]: lambda number=number: found.ready(number) for number in (0, 1)}
        balancer = stack.enter_context(Balancer(health))
        config = configuration(NAME, balancer.url, b"")
        del config["webhooks"][0]["clientConfig"]["caBundle"]
        control_plane.api.create(config)
        stack.callback(control_plane.api.delete, KIND, NAME, api=API)
        yield found


@contextmanager
def controlled(installation):
    """A controller that can be killed and started again: `killed()`."""
    running = [installation.start()]

    def kill():
        running[0].kill()
        running[0] = installation.start()

    try:
        yield kill
    finally:
        running[0].stop()


def works(installation):
    return decides(probe(installation.api, installation.namespace))


def at_rest(installation, what):
    """Wait until nothing is to be rotated, and both webhooks could place without the controller."""
    eventually(lambda: installation.phase() == "S0-steady", what)
    for number in (0, 1):
        eventually(lambda number=number: installation.follows(number), "the snapshot is there")


def serves_new_leaf(installation, before):
    """Whether both webhooks serve the leaf of the Secret, and it is not the one of before."""
    leaf = installation.secret("tls")["tls.crt"]
    addresses = [("127.0.0.1", port) for port, _ in installation.ports[:2]]
    served = {ssl.get_server_certificate(address).encode() for address in addresses}
    return leaf != before and served == {leaf}
