"""What a newcomer reads at the end of a run that skipped tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import binaries, browser, image, pod_environment
from testbed.nodes import parts
from tests.charts import test_alerts
from tests.skipped import summary

CHECKOUT = Path(__file__).parent.parent


def test_programs_that_lack_are_one_line_with_one_command(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    reasons = [browser.missing(), image.why_not(), test_alerts.MISSING, test_alerts.MISSING]
    assert list(summary(reasons)) == [
        (
            "skipped 4 for want of chromium (1), promtool (2), buildah (1), mmdebstrap (1). To run them too:"
            " apt-get install --no-install-recommends chromium prometheus buildah mmdebstrap && make browser"
        )
    ]


def test_what_is_there_is_not_said_to_lack(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None if name == "mmdebstrap" else f"/usr/bin/{name}")
    assert list(summary([image.why_not()])) == [
        (
            "skipped 1 for want of mmdebstrap (1). To run them too:"
            " apt-get install --no-install-recommends mmdebstrap"
        )
    ]


def test_what_is_not_permitted_is_not_said_to_lack(monkeypatch):
    refused = ("sh", "-c", "echo unshare: unshare failed: Operation not permitted >&2; exit 1")
    monkeypatch.setattr("testbed.pod_environment.UNSHARE", refused)
    assert list(summary([pod_environment.why_not()])) == [
        "skipped 1: no namespaces of its own: Operation not permitted"
    ]


def test_go_is_no_package_of_debian(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    [line] = summary([binaries.go_missing()] * 500)
    assert line == (
        "skipped 500 for want of Go (500). To run them too: install Go 1.26 or newer (https://go.dev/dl)"
    )


@pytest.mark.parametrize(
    ("tool", "packages"), [("gcc", "gcc libc6-dev"), ("pkg-config", "pkg-config")], ids=["gcc", "pkg-config"]
)
def test_what_builds_runc_is_installed_with_what_it_needs(monkeypatch, tool, packages):
    monkeypatch.setattr("shutil.which", lambda name: None if name == tool else f"/usr/bin/{name}")
    monkeypatch.setattr("testbed.nodes.parts.go_missing", lambda: None)
    # Whatever K8S says of this run.
    monkeypatch.setattr("testbed.nodes.parts.KUBERNETES", parts.UNDER_TEST.version)
    assert list(summary([parts.why_not()])) == [
        (
            f"skipped 1 for want of {tool} (1). To run them too:"
            f" apt-get install --no-install-recommends {packages}"
        )
    ]


def test_every_other_reason_is_a_line_of_its_own():
    lines = list(summary(["this release has no resize", "this release has no resize", "not root"]))
    assert lines == ["skipped 1: not root", "skipped 2: this release has no resize"]


def test_a_run_ends_with_these_lines(tmp_path):
    (tmp_path / "test_run.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_page(n): pytest.skip('the page is tested in `chromium`, and there is none on PATH')\n"
        "@pytest.mark.skipif(True, reason='no such release')\n"
        "def test_other(): pass\n"
        "def test_passes(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.skipped", "--rootdir=.", "test_run.py"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert [line for line in ended.stdout.splitlines() if line.startswith("skipped ")] == [
        "skipped 1: no such release",
        (
            "skipped 3 for want of chromium (3). To run them too:"
            " apt-get install --no-install-recommends chromium && make browser"
        ),
    ]
    assert ended.returncode == 0, ended.stdout + ended.stderr
