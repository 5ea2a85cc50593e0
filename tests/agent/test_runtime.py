"""Which container runtimes obey CDI."""

import msgspec
import pytest

from agent.options import AgentOptions
from agent.runtime import Runtime, cdi_problem

NOT_SAID, NOT_KNOWN = "does not say whether CDI is on", "is not of the form containerd"


@pytest.mark.parametrize(
    ("version", "cdi", "problem"),
    [
        ("containerd://1.7.0", True, None),
        ("containerd://2.2.1", True, None),
        ("containerd://v2.0", True, None),
        ("containerd://2.4.2", None, None),
        ("containerd://3.0.0", None, None),
        ("cri-o://1.30.4", None, None),
        ("containerd://1.7.27", False, "CDI is off in containerd://1.7.27: set enable_cdi = true"),
        ("containerd://2.4.2", False, "CDI is off in containerd://2.4.2: set enable_cdi = true"),
        ("containerd://1.7.27", None, NOT_SAID),
        ("containerd://2.3.0", None, NOT_SAID),
        ("containerd://1.6.36", None, "upgrade it"),
        ("docker://27.1.0", None, "use containerd or CRI-O"),
        ("", True, NOT_KNOWN),
        ("1.7.27", True, NOT_KNOWN),
        ("containerd://x", True, NOT_KNOWN),
    ],
)
def test_a_runtime_obeys_cdi_by_its_version_and_configuration_or_by_what_the_admin_says(
    tmp_path, version, cdi, problem
):
    file = tmp_path / "runtime"
    file.write_bytes(msgspec.json.encode(Runtime(version, cdi)))
    said = cdi_problem(AgentOptions(runtime_file=str(file)))
    assert (said is None) == (problem is None)
    assert (problem or "") in (said or "")
    assert len(said or "") <= 200
    assert cdi_problem(AgentOptions(runtime_file=str(file), cdi_enabled=True)) is None


UNREADABLE = [None, b"", b"containerd://2.2.1\n", b'{"version": 3}', b"[" * 100_000, b"\xff"]


@pytest.mark.parametrize("content", UNREADABLE, ids=lambda content: repr(content)[:20])
def test_a_file_that_says_nothing_is_not_trusted(tmp_path, content):
    file = tmp_path / "runtime"
    if content is not None:
        file.write_bytes(content)
    said = cdi_problem(AgentOptions(runtime_file=str(file)))
    assert said.startswith("the container runtime was not asked")
    assert said == cdi_problem(AgentOptions())
