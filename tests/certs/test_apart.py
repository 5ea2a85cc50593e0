"""What is made and checked in a process of its own is what would be made and found in ours."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from certs import apart
from certs.authority import make_authority
from certs.leaf import LOCAL_NAMES, make_leaf
from certs.pair import CertificateError, TlsFiles
from certs.validation import validate_files

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
AUTHORITY = make_authority(NOW)
LEAF = make_leaf(AUTHORITY, LOCAL_NAMES, NOW)
FILES = TlsFiles(LEAF, AUTHORITY.certificate_pem, source="/tls")


def test_a_self_signed_pair_comes_back_whole():
    made = apart.self_signed(NOW)
    facts = validate_files(TlsFiles(made.pair, made.ca_pem), LOCAL_NAMES, NOW)
    assert facts.not_after == made.not_after == NOW + timedelta(days=30)


def test_the_facts_of_a_leaf_are_those_found_here():
    assert apart.validate_files(FILES, LOCAL_NAMES, NOW) == validate_files(FILES, LOCAL_NAMES, NOW)


@pytest.mark.parametrize(
    ("names", "now"),
    [(["elsewhere"], NOW), (LOCAL_NAMES, NOW + timedelta(days=31)), (LOCAL_NAMES, NOW - timedelta(days=1))],
)
def test_a_refusal_has_the_words_that_it_has_here(names, now):
    with pytest.raises(CertificateError) as here:
        validate_files(FILES, names, now)
    with pytest.raises(CertificateError) as there:
        apart.validate_files(FILES, iter(names), now)
    assert str(there.value) == str(here.value)


def test_a_process_that_breaks_is_a_refusal_with_its_last_words():
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(CertificateError) as refused:
        apart.self_signed(naive)
    assert str(refused.value) == (
        "the process for certs.self_signed ended with status 1"
        " (ValueError: now 2026-11-20T12:00:00 has no time zone; pass an aware datetime)"
    )


def test_a_process_that_cannot_be_started_is_a_refusal(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(CertificateError, match=r"^no process for certs.validation \(.*No such file"):
        apart.validate_files(FILES, LOCAL_NAMES, NOW)
