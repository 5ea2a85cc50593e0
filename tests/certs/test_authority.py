"""The CA: what X.509 readers see."""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.authority import make_authority
from testbed.certificate_files import certificate_of

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def extension(pair, kind):
    return certificate_of(pair).extensions.get_extension_for_class(kind)


def test_a_ca_may_sign_certificates_and_nothing_below_its_leaves():
    ca = make_authority(NOW)
    basic = extension(ca, x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    usage = extension(ca, x509.KeyUsage)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign) == (True, True)
    assert not usage.value.digital_signature
    assert isinstance(certificate_of(ca).public_key().curve, ec.SECP256R1)


def test_two_cas_share_neither_serial_nor_key_nor_name():
    first, second = certificate_of(make_authority(NOW)), certificate_of(make_authority(NOW))
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()
    assert first.subject != second.subject


def test_the_key_never_shows_in_a_repr():
    assert "PRIVATE" not in repr(make_authority(NOW))
