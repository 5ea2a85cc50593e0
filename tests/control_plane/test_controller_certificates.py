"""Certificates that never take admission down, on two real API servers: first install, rotation, kills."""

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from certs.authority import make_authority
from certs.observation import readable_authorities
from testbed import components, plain_http
from testbed.api import Api, ApiError
from testbed.balancer import Balancer
from testbed.components import ADMIN_TOKEN
from testbed.controller_process import SHORT_LEASE, Controller, ControllerSetup, install_crd, write_tls
from testbed.gpu_nodes import GpuNode
from testbed.mounts import SecretMounts
from testbed.process import Process, eventually, free_ports
from testbed.product import COMMAND, GRACE_S, POLICIES, decides
from testbed.registration import API, KIND, configuration, labelled_pod, probe
from tests.effort import by_turns

NAME = "rotating"
FAST = ("--ca-settle=8", "--ca-keep=3", "--ca-retry=0.3")
LEAVES = int(os.environ.get("FRACTION_INJECTOR_LEAVES", by_turns("control_plane", usual=6, full=10)))
BROKEN_EVERY = 5
RUNBOOK = Path(__file__).parents[2] / "docs" / "operating" / "certificates.md"


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
        setup = ControllerSetup(POLICIES, f"https://localhost:{self.ports[2][0]}")
        port, health_port = self.ports[number]
        options = [f"--port={port}", f"--health-port={health_port}", f"--tls-dir={self.mounts[number]}"]
        more = ["--require-injected-ca", "--stop-delay=0"]
        command = [COMMAND, "webhook", *options, *more, *setup.options]
        return Process(command, self.folder / f"webhook-{number}.log", grace_s=GRACE_S)

    def start_controller(self) -> Process:
        port, health_port = self.ports[2]
        options = [f"--port={port}", f"--health-port={health_port}", f"--tls-dir={self.mounts[2]}"]
        names = ["--tls-name=localhost", "--tls-name=127.0.0.1", f"--issue-certificates={NAME}"]
        where = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        where.append(f"--lease={NAME}-controller")
        dialled = [f"--webhook-endpoint=127.0.0.1:{port}" for port, _ in self.ports[:2]]
        command = [COMMAND, "controller", *options, *names, *where, *dialled, *FAST, *SHORT_LEASE]
        return Process([*command, "--stop-delay=0"], self.folder / "controller.log", grace_s=GRACE_S)

    def ready(self, number: int) -> bool:
        try:
            url = f"http://127.0.0.1:{self.ports[number][1]}/readyz"
            return plain_http.get(url).is_success
        except httpx.TransportError:
            return False

    def follows(self, number: int) -> bool:
        """Whether a webhook knows nodes from the controller; other tests' may be among them."""
        try:
            metrics = plain_http.get(f"http://127.0.0.1:{self.ports[number][1]}/metrics").text
        except httpx.TransportError:  # it starts; the other one answered admission so far
            return False
        known = re.findall(r"^fraction_injector_snapshot_nodes (\S+)$", metrics, re.MULTILINE)
        return any(float(count) >= 1 for count in known)

    def secret(self, suffix: str) -> dict[str, bytes]:
        data = self.api.get("Secret", f"{NAME}-{suffix}", self.namespace).get("data") or {}
        return {name: base64.b64decode(value) for name, value in data.items()}

    def bundle(self) -> bytes:
        entry = self.api.get(KIND, NAME, api=API)["webhooks"][0]
        return base64.b64decode(entry["clientConfig"].get("caBundle", ""))

    def phase(self) -> str:
        """Where the controller says that the rotation is; empty while it does not answer."""
        try:
            text = plain_http.get(f"http://127.0.0.1:{self.ports[2][1]}/metrics").text
        except httpx.TransportError:
            return ""
        lines = [line for line in text.splitlines() if line.startswith("fraction_injector_rotation_phase{")]
        return next((line.split('"')[1] for line in lines if line.endswith(" 1.0")), "")


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
    running = [installation.start_controller()]

    def kill():
        os.killpg(running[0].pid, signal.SIGKILL)
        running[0].stop()
        running[0] = installation.start_controller()

    try:
        yield kill
    finally:
        running[0].stop()


def works(installation):
    return decides(probe(installation.api, installation.namespace))


def test_from_empty_secrets_to_a_webhook_that_openssl_and_the_api_server_trust(
    installation, tmp_path, record_property
):
    started = time.monotonic()
    with controlled(installation):
        eventually(lambda: works(installation), "labelled pods are decided")
        record_property("seconds of the first install", round(time.monotonic() - started, 1))
        at_rest(installation, "the first install is over")
        shown = status(installation)
    assert shown[:2] == ["phase: S0-steady", "waits: certificates are fresh"]
    assert [line.split()[0] for line in shown[3:]] == ["CA", "leaf", "served", "served"]
    tls = installation.secret("tls")
    for name, content in tls.items():
        (tmp_path / name).write_bytes(content)
    verify = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.crt"]
    for service in (f"{NAME}-webhook", f"{NAME}-controller"):
        command = [*verify, "-verify_hostname", f"{service}.{installation.namespace}.svc", "tls.crt"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "tls.crt: OK\n"), ended.stderr
    [authority] = readable_authorities(installation.bundle())
    assert tls["injected-ca"].decode().split() == [authority.sha256]
    assert "ca.key" not in tls


def status(installation):
    """What `fraction-injector certs status` prints of an installation at rest."""
    where = [f"--kubeconfig={installation.kubeconfig}", f"--namespace={installation.namespace}"]
    where += [f"--webhook-endpoint=127.0.0.1:{port}" for port, _ in installation.ports[:2]]
    command = [COMMAND, "certs", "status", NAME, *where]
    environment = {"COLUMNS": "160", "PATH": os.environ["PATH"]}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return ended.stdout.splitlines()


@pytest.mark.timeout(600, func_only=True)
def test_a_whole_rotation_with_kills_fails_no_create(control_plane, installation):
    second, url = components.start_apiserver(control_plane.home, control_plane.etcd_url, "second-apiserver")
    ca_file = str(control_plane.home.ca_file)
    with second, Api(url, ca_file, ADMIN_TOKEN) as other, controlled(installation) as kill:
        eventually(lambda: works(installation), "labelled pods are decided")
        eventually(lambda: decides(probe(other, installation.namespace)), "on the other API server too")
        at_rest(installation, "the first install is over")
        [before] = readable_authorities(installation.bundle())
        phases = rotate_under_creates(installation, other, kill)
        [after] = readable_authorities(installation.bundle())
    assert after != before
    assert readable_authorities(installation.secret("ca")["ca.crt"]) == (after,)
    assert len(phases) >= 2, (
        "a kill takes seconds on a slow machine, and each phase has its own; which are met differs"
    )


def rotate_under_creates(installation, other, kill):
    """Take the CA's key away, which forces a new CA; kill in each phase that shows, and give those."""
    phases = set()
    with creating(installation.namespace, installation.api, other):
        change_secret(installation, "ca", {"ca.key": None})

        def finished():
            now = installation.phase()
            if now not in phases | {"", "S0-steady"}:
                phases.add(now)
                kill()
            rests = installation.phase() == "S0-steady"
            return rests and len(readable_authorities(installation.bundle())) == 1

        eventually(lambda: installation.phase() not in ("", "S0-steady"), "the rotation has begun")
        eventually(finished, "the rotation is over", seconds=180)
    return phases


@contextmanager
def creating(namespace, *apis):
    """Create labelled pods through each API server all the time, and let none of them fail."""
    failures, created, done = [], [], threading.Event()

    def create(api):
        while not done.wait(0.05):
            try:
                api.create(labelled_pod("probe"), namespace, dry_run=True)
                created.append(api)
            except (ApiError, httpx.HTTPError) as error:
                failures.append(str(error))

    threads = [threading.Thread(target=create, args=(api,)) for api in apis]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert set(created) == set(apis)


def change_secret(installation, suffix, data):
    path = f"/api/v1/namespaces/{installation.namespace}/secrets/{NAME}-{suffix}"
    installation.api.call("PATCH", path, {"data": data}, content="application/merge-patch+json")


@pytest.mark.timeout(900, func_only=True)
def test_leaves_renewed_and_broken_by_hand_fail_no_create(installation):
    with controlled(installation):
        eventually(lambda: works(installation), "labelled pods are decided")
        at_rest(installation, "the first install is over")
        with creating(installation.namespace, installation.api):
            for number in range(LEAVES):
                before = installation.secret("tls")["tls.crt"]
                other = base64.b64encode(make_authority(datetime.now(UTC)).key_pem).decode()
                broken = {"tls.key": other if number % BROKEN_EVERY == 0 else None}
                change_secret(installation, "tls", broken)
                eventually(
                    lambda before=before: serves_new_leaf(installation, before), "both serve a new leaf"
                )


def serves_new_leaf(installation, before):
    """Whether both webhooks serve the leaf of the Secret, and it is not the one of before."""
    leaf = installation.secret("tls")["tls.crt"]
    addresses = [("127.0.0.1", port) for port, _ in installation.ports[:2]]
    served = {ssl.get_server_certificate(address).encode() for address in addresses}
    return leaf != before and served == {leaf}


def test_applying_the_configuration_again_keeps_the_bundle_and_can_remove_a_rule(control_plane, installation):
    with controlled(installation):
        eventually(lambda: works(installation), "labelled pods are decided")
        at_rest(installation, "the first install is over")
    bundle = installation.bundle()
    url = installation.api.get(KIND, NAME, api=API)["webhooks"][0]["clientConfig"]["url"]
    config = configuration(NAME, url, b"")
    del config["webhooks"][0]["clientConfig"]["caBundle"]
    for _ in range(2):
        apply(control_plane, config)
        assert installation.bundle() == bundle
        answer = control_plane.kubectl("apply", "--filename=-", stdin=json.dumps(config))
        assert answer.code == 0
        assert installation.bundle() == bundle
    config["webhooks"][0]["rules"].pop()
    apply(control_plane, config)
    stored = installation.api.get(KIND, NAME, api=API)["webhooks"][0]
    assert [rule["resources"] for rule in stored["rules"]] == [["pods"]]
    assert installation.bundle() == bundle


def test_the_ca_of_an_existing_secret_is_kept_in_the_configuration(control_plane, namespace, tmp_path):
    install_crd(control_plane.api)
    config = configuration(namespace, "https://127.0.0.1:1/mutate", b"")
    del config["webhooks"][0]["clientConfig"]["caBundle"]
    config["webhooks"][0]["failurePolicy"] = "Ignore"
    control_plane.api.create(config)

    def bundle():
        entry = control_plane.api.get(KIND, namespace, api=API)["webhooks"][0]
        return base64.b64decode(entry["clientConfig"].get("caBundle", ""))

    tls = write_tls(tmp_path / "tls")
    more = [*SHORT_LEASE, f"--inject-ca={namespace}"]
    try:
        with Controller(control_plane.kubeconfig, tmp_path, tls, namespace, more=more):
            eventually(lambda: bundle() == (tls / "ca.crt").read_bytes(), "the CA is injected")
    finally:
        control_plane.api.delete(KIND, namespace, api=API)


@pytest.mark.timeout(600, func_only=True)
def test_every_command_of_the_runbook_does_what_it_says(control_plane, installation, tmp_path):
    look, leaf, authority, repair, recreate = re.findall(r"```sh\n(.*?)```", RUNBOOK.read_text(), re.DOTALL)
    with controlled(installation):
        eventually(lambda: works(installation), "labelled pods are decided")
        at_rest(installation, "the first install is over")
        assert run(control_plane, installation, look).startswith("phase: S")
        before = installation.secret("tls")["tls.crt"]
        run(control_plane, installation, leaf)
        eventually(lambda: serves_new_leaf(installation, before), "a new leaf is served")
        [former] = readable_authorities(installation.bundle())
        run(control_plane, installation, authority)
        eventually(
            lambda: former not in readable_authorities(installation.bundle()), "the old CA is gone", 180
        )
        at_rest(installation, "the new CA has taken over")
    change = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    path = f"/apis/{API}/mutatingwebhookconfigurations/{NAME}"
    installation.api.call("PATCH", path, change, content="application/json-patch+json")
    run(control_plane, installation, repair)
    assert installation.bundle() == installation.secret("tls")["ca.crt"]
    eventually(lambda: works(installation), "admission works without a controller")
    run(control_plane, installation, recreate)
    with controlled(installation):
        at_rest(installation, "all is recreated")
        assert readable_authorities(installation.bundle()) != (former,)
        eventually(lambda: works(installation), "labelled pods are decided")


def at_rest(installation, what):
    """Wait until nothing is to be rotated, and both webhooks could place without the controller."""
    eventually(lambda: installation.phase() == "S0-steady", what)
    for number in (0, 1):
        eventually(lambda number=number: installation.follows(number), "the snapshot is there")


def run(control_plane, installation, commands):
    """Run commands of the runbook as an administrator would."""
    folders = [str(control_plane.home.binaries), str(Path(COMMAND).parent), os.environ["PATH"]]
    environment = {
        "PATH": ":".join(folders),
        "HOME": str(installation.folder),
        "KUBECONFIG": str(installation.kubeconfig),
        "NAME": NAME,
        "NAMESPACE": installation.namespace,
    }
    bash = ["bash", "-eu", "-c", commands]
    ended = subprocess.run(bash, env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.stdout


def apply(control_plane, config):
    """Server-side, as Helm 4 does."""
    path = f"/apis/{API}/mutatingwebhookconfigurations/{NAME}"
    query = {"fieldManager": "helm", "force": "true"}
    control_plane.api.call("PATCH", path, config, query, "application/apply-patch+yaml")
