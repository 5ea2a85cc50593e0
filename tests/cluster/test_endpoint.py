"""Where the API server of a pod's service account is."""

import asyncio

import pytest
import trustme

from cluster.endpoint import NoApiServerError, of_service_account

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def folder(tmp_path):
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def test_a_pod_uses_its_service_account(folder):
    found = of_service_account(folder, IN_POD)
    assert found.url == "https://10.0.0.1:443"
    assert asyncio.run(found.authorization()) == "Bearer first"
    (folder / "token").write_text("second")
    assert asyncio.run(found.authorization()) == "Bearer second"
    assert len(found.tls.get_ca_certs()) == 1


def test_the_address_of_a_cluster_with_ipv6_is_in_brackets(folder):
    found = of_service_account(folder, {**IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert found.url == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "token").unlink(), "No such file"),
        (lambda folder: (folder / "token").write_text(""), "token is empty"),
        (lambda folder: (folder / "ca.crt").unlink(), "No such file"),
        (lambda folder: (folder / "ca.crt").write_text("no certificate"), "ca.crt|certificate"),
    ],
)
def test_a_pod_without_a_usable_service_account_is_told_so(folder, spoil, says):
    spoil(folder)
    with pytest.raises(NoApiServerError, match=says):
        of_service_account(folder, IN_POD)


def test_outside_a_pod_the_option_for_a_kubeconfig_is_named(folder):
    with pytest.raises(NoApiServerError, match=r"this is no pod of a cluster; .*--kubeconfig FILE"):
        of_service_account(folder, {})
