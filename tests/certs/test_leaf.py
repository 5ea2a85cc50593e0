"""Leaves of a CA: what X.509 readers see."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import make_authority
from certs.leaf import make_leaf, service_names
from certs.values import CertificateError, KeyPair
from testbed.certificate_files import certificate_of

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def extension(pair: KeyPair, kind):
    return certificate_of(pair).extensions.get_extension_for_class(kind)


def test_a_leaf_serves_and_calls_under_all_four_service_names():
    leaf = make_leaf(make_authority(NOW), service_names("injector", "gpu"), NOW)
    names = extension(leaf, x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "injector",
        "injector.gpu",
        "injector.gpu.svc",
        "injector.gpu.svc.cluster.local",
    ]
    usages = set(extension(leaf, x509.ExtendedKeyUsage).value)
    assert usages == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert extension(leaf, x509.BasicConstraints).value.ca is False
    assert extension(leaf, x509.KeyUsage).value.digital_signature


@pytest.mark.parametrize("age", [timedelta(days=365), timedelta(hours=-1, seconds=-1)])
def test_a_ca_outside_its_dates_signs_nothing(age):
    with pytest.raises(CertificateError, match=r"CA certificate: is valid from 2026-11-20T11:00:00Z to "):
        make_leaf(make_authority(NOW), ["a"], NOW + age)
