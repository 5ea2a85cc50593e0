"""Which container runtimes obey CDI."""

import msgspec
import pytest

from agent.options import AgentOptions
from agent.runtime import MAX_BYTES, Runtime, cdi_problem


def problem(tmp_path, version, *, cdi=None, **options):
    """What is wrong with a runtime that said this of itself."""
    file = tmp_path / "runtime"
    file.write_bytes(msgspec.json.encode(Runtime(version, cdi)))
    return cdi_problem(AgentOptions(runtime_file=str(file), **options))


@pytest.mark.parametrize("version", ["containerd://1.7.0", "containerd://2.2.1", "containerd://v2.0"])
def test_containerd_obeys_cdi_where_its_configuration_turns_it_on(tmp_path, version):
    assert problem(tmp_path, version, cdi=True) is None


@pytest.mark.parametrize("version", ["containerd://1.7.27", "containerd://2.2.1", "containerd://2.4.2"])
def test_containerd_does_not_where_its_configuration_turns_it_off(tmp_path, version):
    said = problem(tmp_path, version, cdi=False)
    assert said.startswith(f"CDI is off in {version}: set enable_cdi = true")
    assert len(said) <= 200


@pytest.mark.parametrize("version", ["containerd://2.4.2", "containerd://3.0.0", "cri-o://1.30.4"])
def test_runtimes_without_such_a_switch_obey_cdi(tmp_path, version):
    assert problem(tmp_path, version) is None


@pytest.mark.parametrize("version", ["containerd://1.7.27", "containerd://2.0.5", "containerd://2.3.0"])
def test_where_containerd_does_not_say_it_the_admin_must(tmp_path, version):
    said = problem(tmp_path, version)
    assert "does not say whether CDI is on" in said
    assert "agent.cdiEnabled: true" in said
    assert len(said) <= 200
    assert problem(tmp_path, version, cdi_enabled=True) is None


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("containerd://1.6.36", "upgrade it"),
        ("docker://27.1.0", "use containerd or CRI-O"),
        ("cri-o://1.22.0", "upgrade it"),
    ],
)
def test_older_and_other_ones_must_be_upgraded_or_replaced(tmp_path, version, advice):
    assert problem(tmp_path, version).endswith(advice)


@pytest.mark.parametrize("version", ["", "1.7.27", "containerd://x"])
def test_a_version_that_says_nothing_is_not_trusted(tmp_path, version):
    assert "version" in problem(tmp_path, version, cdi=True)


UNREADABLE = [None, b"", b"containerd://2.2.1\n", b'{"version": 3}', b"[" * 100_000, b"\xff"]


@pytest.mark.parametrize("content", UNREADABLE, ids=repr)
def test_a_file_that_says_nothing_is_not_trusted(tmp_path, content):
    file = tmp_path / "runtime"
    if content is not None:
        file.write_bytes(content)
    options = AgentOptions(runtime_file=str(file))
    assert "the container runtime was not asked" in cdi_problem(options)
    assert len(cdi_problem(options)) <= 200
    assert "the container runtime was not asked" in cdi_problem(AgentOptions())


def test_a_file_is_not_read_without_end(tmp_path):
    file = tmp_path / "runtime"
    file.write_bytes(msgspec.json.encode(Runtime("containerd://2.4.2", cdi=True)) + b" " * MAX_BYTES)
    assert "the container runtime was not asked" in cdi_problem(AgentOptions(runtime_file=str(file)))
