"""The file of a CA is there as a whole, for everybody to read."""

import stat

import pytest

from certs.ca_file import write_ca_file


def test_the_ca_file_is_replaced_whole_and_readable_by_all(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with path.open("rb") as reader:
        write_ca_file(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    (tmp_path / "ca.pem").mkdir()
    with pytest.raises(OSError):
        write_ca_file(tmp_path / "ca.pem", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["ca.pem"]
