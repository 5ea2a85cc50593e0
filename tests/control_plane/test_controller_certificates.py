"""Certificates that the controller issues on a real API server: first install, upgrades, the runbook."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from certs.observation import readable_authorities
from testbed.process import eventually
from testbed.product import COMMAND
from testbed.registration import API
from tests.control_plane import certified
from tests.control_plane.certified import NAME, at_rest, controlled, serves_new_leaf, works

installation = certified.installation

RUNBOOK = Path(__file__).parents[2] / "docs" / "operating" / "certificates.md"


def test_from_empty_secrets_to_a_webhook_that_openssl_and_the_api_server_trust(installation, tmp_path):
    with controlled(installation):
        eventually(lambda: works(installation), "labelled pods are decided")
        at_rest(installation, "the first install is over")
        shown = status(installation)
    assert shown[:2] == ["phase: S0-steady", "waits: certificates are fresh"]
    assert [line.split()[0] for line in shown[3:]] == ["CA", "leaf", "served", "served"]
    tls = installation.secret("tls")
    for name, content in tls.items():
        (tmp_path / name).write_bytes(content)
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.crt"]
    names = [f"{NAME}-{each}.{installation.namespace}.svc" for each in ("webhook", "controller")]
    checks = [["sslserver", "-verify_hostname", name] for name in names]
    for check in [*checks, ["sslserver", "-verify_ip", "127.0.0.1"], ["sslclient"]]:
        command = [*verify, "-purpose", *check, "tls.crt"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "tls.crt: OK\n"), ended.stderr
    [authority] = readable_authorities(installation.bundle())
    assert tls["injected-ca"].decode().split() == [authority.sha256]
    assert "ca.key" not in tls


def status(installation):
    """What `fraction-injector certs status` prints of an installation at rest."""
    where = [f"--kubeconfig={installation.kubeconfig}", f"--release={installation.namespace}/{NAME}"]
    where += [f"--webhook-endpoint=127.0.0.1:{port}" for port, _ in installation.ports[:2]]
    command = [COMMAND, "certs", "status", *where]
    environment = {"COLUMNS": "160", "PATH": os.environ["PATH"]}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return ended.stdout.splitlines()


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


def run(control_plane, installation, commands):
    """Run commands of the runbook as an administrator would."""
    folders = [str(control_plane.home.binaries), str(Path(COMMAND).parent), os.environ["PATH"]]
    environment = {
        "PATH": ":".join(folders),
        "HOME": str(installation.folder),
        "KUBECONFIG": str(installation.kubeconfig),
        "NAME": NAME,
        "NAMESPACE": installation.namespace,
        "FRACTION_INJECTOR_RELEASE": f"{installation.namespace}/{NAME}",
    }
    bash = ["bash", "-eu", "-c", commands]
    ended = subprocess.run(bash, env=environment, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.stdout
