"""fraction-injector certs: where it looks, and what it says of what is not there."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import make_authority
from certs.leaf import make_leaf
from certs.observation import readable_authorities
from cli.options import kubeconfig_of
from cluster.kube_client import ApiError
from tests.cli.running import run, serve


def test_a_namespace_without_the_secrets_is_named(monkeypatch):
    serve(monkeypatch, Api({}))
    names = "fraction-injector-ca and fraction-injector-tls"
    said = f"fraction-injector: namespace typo has no Secrets {names}: name the installation by --release\n"
    for command in ("status", "rotate"):
        ended = run("certs", command, "--release", "typo/fraction-injector")
        assert (ended.returncode, ended.stderr) == (2, said)


class Api:
    """Holds objects by path, and what was written."""

    def __init__(self, objects):
        self.objects, self.written = objects, []

    async def request(self, method, path, *, body=None, **_):
        if self.objects.get(path) is None:
            raise ApiError(404, f"{path} not found")
        if method == "PATCH":
            self.written.append((path, body["data"], body["metadata"]["resourceVersion"]))
        return json.dumps(self.objects[path]).encode()


NAMESPACE = "/api/v1/namespaces/own"
SECRETS = f"{NAMESPACE}/secrets/fraction-injector-"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/own/leases/fraction-injector-controller"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fraction-injector"


def lease(seconds_ago=1, holder="controller-a"):
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def secret(**data):
    encoded = {name.replace("_", "."): base64.b64encode(value).decode() for name, value in data.items()}
    return {"metadata": {"resourceVersion": "7"}, "data": encoded}


@pytest.fixture
def rotate(monkeypatch):
    """Ask for a rotation; what was written is returned with how it ended."""
    made = make_authority(datetime.now(UTC))
    leaf = make_leaf(made, ["localhost"], datetime.now(UTC))
    [authority] = readable_authorities(made.certificate_pem)
    bundle = base64.b64encode(made.certificate_pem).decode()
    entry = {"name": "fractions.clearml-injector.io", "clientConfig": {"caBundle": bundle}}
    objects = {
        f"{SECRETS}ca": secret(ca_crt=made.certificate_pem, ca_key=made.key_pem),
        f"{SECRETS}tls": secret(
            ca_crt=made.certificate_pem,
            tls_crt=leaf.certificate_pem,
            tls_key=leaf.key_pem,
            **{"injected-ca": authority.sha256.encode()},
        ),
        CONFIGURATION: {"metadata": {}, "webhooks": [entry]},
        LEASE: lease(),
        "/apis/discovery.k8s.io/v1/namespaces/own/endpointslices": {"items": []},
    }

    def call(*arguments, **changes):
        api = Api(objects | changes)
        serve(monkeypatch, api)
        env = {"FRACTION_INJECTOR_RELEASE": "own/fraction-injector"}
        return run("certs", "rotate", *arguments, env=env), api.written

    return call


@pytest.mark.parametrize(
    ("option", "suffix", "key"), [((), "tls", "tls.key"), (("--authority",), "ca", "ca.key")]
)
def test_a_rotation_takes_the_key_of_what_is_to_be_issued(rotate, option, suffix, key):
    ended, written = rotate(*option)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert written == [(f"{SECRETS}{suffix}", {key: None}, "7")]
    assert ended.stdout.startswith(f"Secret own/fraction-injector-{suffix} has lost its key: ")


@pytest.mark.parametrize("held", [None, lease(seconds_ago=20), lease(holder="")], ids=["none", "old", "free"])
def test_no_key_is_taken_while_nobody_would_issue_another(rotate, held):
    ended, written = rotate(**{LEASE: held})
    assert (ended.returncode, written) == (2, [])
    assert "no controller leads in own, so nobody would issue" in ended.stderr


def test_no_key_is_taken_of_certificates_that_others_issue(rotate):
    ended, written = rotate(**{f"{SECRETS}ca": secret(tls_key=b"of cert-manager")})
    assert (ended.returncode, written) == (2, [])
    assert "renew certificates where they are issued" in ended.stderr


def test_a_change_of_the_ca_is_not_begun_again_while_one_is_under_way(rotate):
    coming, own = (make_authority(datetime.now(UTC)) for _ in range(2))
    old, new = ({"crt": each.certificate_pem, "key": each.key_pem} for each in (own, coming))
    authorities = secret(ca_crt=old["crt"], ca_key=old["key"], next_crt=new["crt"], next_key=new["key"])
    ended, written = rotate("--authority", **{f"{SECRETS}ca": authorities})
    assert (ended.returncode, written) == (1, [])
    assert "a change of the CA is in progress, S1-stored" in ended.stdout
    assert rotate(**{f"{SECRETS}ca": authorities})[0].returncode == 0


def test_in_a_pod_the_service_account_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    usual = tmp_path / ".kube" / "config"
    assert kubeconfig_of(None) == usual
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert kubeconfig_of(None) is None
    assert kubeconfig_of(Path("given")) == Path("given")
    usual.parent.mkdir()
    usual.write_text(json.dumps({}))
    assert kubeconfig_of(None) == usual
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}/.kube/config")
    assert kubeconfig_of(None) == usual
