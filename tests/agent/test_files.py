"""What tells one state of folders from the next, and files that are written whole or not at all."""

import resource

import pytest

from agent.files import stamps_of, write_whole


def test_a_link_that_leads_nowhere_hides_no_other_file(tmp_path):
    # In turns, since a folder lists its files in an order of its own.
    for number in range(20):
        (tmp_path / f"{number}-link").symlink_to(tmp_path / "nowhere")
        (tmp_path / f"{number}-file").touch()
    assert {name for name, *_ in stamps_of([str(tmp_path)])} == {
        str(tmp_path / f"{number}-file") for number in range(20)
    }


def test_what_a_full_disk_did_not_take_is_as_it_was(tmp_path):
    file, (soft, hard) = tmp_path / "file.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    write_whole(file, b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(file, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
