"""The file of prepared claims: whole whatever happens, and known by its boot."""

import json

import pytest

from agent.dra import checkpoint
from agent.dra.checkpoint import CheckpointError, PreparedClaim, PreparedClaims, PreparedDevice

CLAIM = PreparedClaim("default", "claim", "pod-uid", (PreparedDevice("gpu", "gpu-0", None, "GPU-0", 1024),))


def test_what_was_put_is_there_after_a_restart_and_what_was_removed_is_not(tmp_path):
    claims = PreparedClaims(tmp_path, "boot-1")
    claims.put("a", CLAIM)
    claims.put("b", CLAIM)
    claims.remove("a")
    claims.remove("never-there")
    again = PreparedClaims(tmp_path, "boot-1")
    assert again.claims == again.claims_of_this_boot == {"b": CLAIM}
    assert again.is_whole


def test_claims_of_another_boot_have_no_containers(tmp_path):
    PreparedClaims(tmp_path, "boot-1").put("a", CLAIM)
    again = PreparedClaims(tmp_path, "boot-2")
    assert (again.claims, again.claims_of_this_boot) == ({"a": CLAIM}, {})
    again.put("a", CLAIM)
    assert PreparedClaims(tmp_path, "boot-2").claims_of_this_boot == {"a": CLAIM}


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-9], lambda text: text.replace("1024", "9999"), lambda _: ""]
)
def test_a_file_that_is_torn_or_changed_counts_as_unknown(tmp_path, damage):
    PreparedClaims(tmp_path, "boot-1").put("a", CLAIM)
    file = tmp_path / "private" / "claims.json"
    file.write_text(damage(file.read_text()))
    again = PreparedClaims(tmp_path, "boot-1")
    assert (again.claims, again.is_whole) == ({}, False)
    again.put("b", CLAIM)
    assert list(json.loads(file.read_text())["content"]["claims"]) == ["b"]


def test_more_claims_than_a_node_can_have_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_CLAIMS", 2)
    claims = PreparedClaims(tmp_path, "boot-1")
    for uid in ("a", "b", "b"):
        claims.put(uid, CLAIM)
    with pytest.raises(CheckpointError, match="2 claims are prepared"):
        claims.put("c", CLAIM)


def test_a_folder_that_cannot_be_written_loses_no_claim_in_silence(tmp_path):
    claims = PreparedClaims(tmp_path, "boot-1")
    (tmp_path / "private" / "claims.json").mkdir()
    with pytest.raises(CheckpointError, match="cannot be stored"):
        claims.put("a", CLAIM)
    assert not claims.claims


def test_claims_whose_cdi_files_are_left_without_a_checkpoint_are_unknown_until_they_are_unprepared(tmp_path):
    claims = PreparedClaims(tmp_path, "boot-1", {"b", "c"})
    assert not claims.is_whole
    claims.put("a", CLAIM)
    again = PreparedClaims(tmp_path, "boot-1", {"a", "b", "c"})
    assert (again.claims, again.is_whole) == ({"a": CLAIM}, False)
    again.remove("b", {"a", "c"})
    assert not again.is_whole
    again.remove("c", {"a"})
    assert again.is_whole
    assert PreparedClaims(tmp_path, "boot-1", {"a"}).is_whole


def test_a_restart_of_the_node_ends_what_is_unknown(tmp_path):
    PreparedClaims(tmp_path, "boot-1", {"b"}).put("a", CLAIM)
    assert not PreparedClaims(tmp_path, "boot-1", {"a", "b"}).is_whole
    assert PreparedClaims(tmp_path, "boot-2", {"a", "b"}).is_whole
