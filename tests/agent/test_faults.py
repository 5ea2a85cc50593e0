"""Faults of GPUs in the agent's private folder."""

import pytest

from agent.faults import FILE, Fault, Faults
from agent.private_folder import NAME


@pytest.fixture
def file(tmp_path):
    kept = Faults(tmp_path, "boot")
    kept.set("GPU-0", Fault(79))
    kept.save()
    return tmp_path / NAME / FILE


SPOILED = [b"", b"[" * 100_000, b'{"boot": "boot", "faults": []}', b"\xff" * 10]


@pytest.mark.parametrize("content", SPOILED, ids=len)
def test_a_file_that_says_nothing_is_as_if_it_was_not_there(tmp_path, file, content):
    file.write_bytes(content)
    faults = Faults(tmp_path, "boot")
    assert faults.of("GPU-0") is None
    faults.set("GPU-0", Fault(48))
    faults.save()
    assert Faults(tmp_path, "boot").of("GPU-0") == Fault(48)


def test_a_link_in_its_place_is_not_followed(tmp_path, file, capfd):
    file.symlink_to(file.rename(tmp_path / "elsewhere"))
    assert Faults(tmp_path, "boot").of("GPU-0") is None
    assert "faults of GPUs from before are not known" in capfd.readouterr().err


def test_a_folder_that_cannot_be_written_is_logged_and_the_fault_stays_in_memory(tmp_path, capfd):
    (tmp_path / NAME).write_text("in the way")
    faults = Faults(tmp_path, "boot")
    faults.set("GPU-0", Fault(79))
    faults.save()
    faults.save()
    assert faults.of("GPU-0") == Fault(79)
    Faults(tmp_path, "").save()  # without a boot nothing is stored
    assert capfd.readouterr().err.count("a restart forgets them") == 1
