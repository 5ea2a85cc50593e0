"""The file of prepared claims: whole whatever happens, and known by its boot."""

import pytest

from agent.dra.checkpoint import CheckpointError, PreparedClaim, PreparedClaims, PreparedDevice

CLAIM = PreparedClaim("default", "claim", "pod-uid", (PreparedDevice("gpu", "gpu-0", None, "GPU-0", 1024),))


def test_what_was_put_is_there_after_a_restart_and_of_this_boot_once_it_is_prepared_in_it(tmp_path):
    claims = PreparedClaims(tmp_path, "boot-1")
    claims.put("a", CLAIM)
    claims.put("b", CLAIM)
    claims.remove("a")
    claims.remove("never-there")
    for boot, is_of_this_boot in (("boot-1", True), ("boot-2", False)):
        again = PreparedClaims(tmp_path, boot)
        assert (again.claims, again.is_of_this_boot) == ({"b": CLAIM}, is_of_this_boot)
    again.put("b", CLAIM)
    assert PreparedClaims(tmp_path, "boot-2").is_of_this_boot


def test_a_file_with_a_checksum_of_an_earlier_release_is_read(tmp_path):
    PreparedClaims(tmp_path, "boot-1").put("a", CLAIM)
    file = tmp_path / "private" / "claims.json"
    file.write_text(file.read_text().replace('{"content":{', '{"sha256":"0","content":{"is_whole":true,'))
    assert PreparedClaims(tmp_path, "boot-1").claims == {"a": CLAIM}


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda _: ""], ids=["torn", "empty"])
def test_a_file_that_cannot_be_read_counts_as_of_this_boot_without_claims(tmp_path, damage):
    PreparedClaims(tmp_path, "boot-1").put("a", CLAIM)
    file = tmp_path / "private" / "claims.json"
    file.write_text(damage(file.read_text()))
    again = PreparedClaims(tmp_path, "boot-2")
    assert (again.claims, again.is_of_this_boot) == ({}, True)
    again.put("b", CLAIM)
    assert PreparedClaims(tmp_path, "boot-2").claims == {"b": CLAIM}


def test_a_folder_that_cannot_be_written_loses_no_claim_in_silence(tmp_path):
    claims = PreparedClaims(tmp_path, "boot-1")
    (tmp_path / "private" / "claims.json").mkdir()
    with pytest.raises(CheckpointError, match="cannot be stored"):
        claims.put("a", CLAIM)
    assert not claims.claims
