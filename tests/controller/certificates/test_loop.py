"""What the certificate loops say and count of what they find and write."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from certs.observation import SecretContent
from certs.rotation import RotationSettings
from cluster.kube_client import ApiError
from controller.certificates.loop import BundleLoop, CertificateLoop
from controller.certificates.metrics import CertificateMetrics
from controller.certificates.store import Bundle, Installation

NAMES = ("x-webhook.own.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE = RotationSettings(retry=timedelta(0))


class Store:
    """Secrets and caBundle in memory; it lets no Secret be created, as the chart's rights."""

    installation = Installation("own", "x")

    def __init__(self, *suffixes, bundle=b""):
        self.secrets = {suffix: SecretContent({}, {}) for suffix in suffixes}
        self.bundle = bundle

    async def read_secret(self, suffix):
        content = self.secrets.get(suffix)
        return content, "1" if content else None

    async def read_bundle(self):
        return Bundle(self.bundle)

    async def served(self):
        return {}

    async def write_secret(self, suffix, content, version):
        if version is None:
            raise ApiError(403, "secrets is forbidden")
        self.secrets[suffix] = content

    async def deliver(self, content):
        pass

    async def write_bundle(self, pem, read):
        self.bundle = pem


class Leads:
    """A leadership that is over after some steps; `note` is called before each."""

    def __init__(self, looks, note=lambda: None):
        self.looks, self._note = looks, note

    @property
    def leads(self):
        self._note()
        self.looks -= 1
        return self.looks >= 0


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return CertificateMetrics(registry)


def run(store, metrics, looks):
    loop = CertificateLoop(store, Leads(looks), metrics, NAMES, AT_ONCE, clock=lambda: START)
    asyncio.run(loop.run())


def writes(registry, action):
    return registry.get_sample_value("fraction_injector_certificate_writes_total", {"action": action})


def lines(capfd, event):
    found = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    return [line for line in found if line["event"] == event]


def test_a_new_ca_is_counted_and_the_log_says_why(registry, metrics, capfd):
    store = Store("tls", "ca")
    run(store, metrics, looks=2)
    assert writes(registry, "StoreNewAuthority") == 1
    [line] = [line for line in lines(capfd, "certificates") if line["action"] == "StoreNewAuthority"]
    assert line["why"] == "no CA is stored whose key could sign"


def test_a_ca_that_was_emptied_by_hand_is_counted_again(registry, metrics):
    store = Store("tls", "ca")
    run(store, metrics, looks=12)
    assert writes(registry, "IssueLeaf") == 1
    store.secrets["ca"] = SecretContent({}, {})
    run(store, metrics, looks=2)
    assert writes(registry, "StoreNewAuthority") == 2


def test_a_deleted_secret_is_an_error_and_the_log_says_what_makes_it_again(registry, metrics, capfd):
    store = Store("tls")
    run(store, metrics, looks=2)
    assert registry.get_sample_value("fraction_injector_certificate_errors_total") == 1
    assert writes(registry, "StoreNewAuthority") == 0
    [line] = lines(capfd, "a Secret is missing, and the controller may not create any")
    assert line["secrets"] == ["x-ca"]
    assert line["do"].startswith("run `helm upgrade` ")


def test_another_refusal_than_of_a_creation_is_raised(metrics):
    store = Store("tls", "ca")

    async def refuse(*_):
        raise ApiError(403, "secrets is forbidden")

    store.write_secret = refuse
    with pytest.raises(ApiError, match="403"):
        run(store, metrics, looks=2)


def certificates_for(store, leadership, metrics, _directory):
    return CertificateLoop(store, leadership, metrics, NAMES, AT_ONCE, clock=lambda: START)


def bundle_for(store, leadership, metrics, directory):
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (directory / name).write_bytes(b"")
    return BundleLoop(store, leadership, metrics, directory)


@pytest.mark.parametrize("loop_for", [certificates_for, bundle_for])
def test_a_missing_configuration_shows_while_this_replica_leads(loop_for, registry, tmp_path, monkeypatch):
    monkeypatch.setattr("controller.certificates.loop.BUNDLE_SECONDS", 0.0)
    metrics = CertificateMetrics(registry)

    def missing():
        return registry.get_sample_value("fraction_injector_webhook_configuration_missing")

    for bundle, shown in ((None, 1.0), (b"", 0.0)):
        seen = []
        leads = Leads(4, lambda seen=seen: seen.append(missing()))
        asyncio.run(loop_for(Store("tls", "ca", bundle=bundle), leads, metrics, tmp_path).run())
        assert (seen[0], seen[-1], missing()) == (0.0, shown, 0.0)
