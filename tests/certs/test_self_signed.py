"""The standalone webhook's certificate, and the CA that its users trust."""

from datetime import UTC, datetime, timedelta

from certs.leaf import LOCAL_NAMES
from certs.self_signed import self_signed
from certs.validation import validate_files
from certs.values import TlsFiles

NOW = datetime.now(UTC)


def test_a_self_signed_pair_is_good_for_this_machine():
    made = self_signed(NOW)
    facts = validate_files(TlsFiles(made.pair, made.ca_pem), LOCAL_NAMES)
    assert facts.not_after == made.not_after == NOW.replace(microsecond=0) + timedelta(days=30)


def test_the_ca_comes_without_a_key():
    made = self_signed(NOW)
    assert made.ca_pem.count(b"-----BEGIN") == 1
    assert made.ca_pem.startswith(b"-----BEGIN CERTIFICATE-----\n")
