"""Without Chromium these tests are skipped, and say why; in CI that is a failure."""

import os
import subprocess
import sys

REASON = "the page is tested in Debian's `chromium`, and there is none on PATH"


def run_without_chromium(folder, checkout, **environment):
    """Run a test that opens a tab, with the fixtures of this folder, where there is no Chromium."""
    (folder / "test_run.py").write_text("def test_passes(open_page): open_page('about:blank')")
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    kept |= {"PATH": str(folder), "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.browser_fixture", "--rootdir=.", "-rs"]
    return subprocess.run(
        [*command, "test_run.py"],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_chromium_the_tests_are_skipped_with_the_reason(tmp_path, pytestconfig):
    ended = run_without_chromium(tmp_path, pytestconfig.rootpath)
    assert ended.returncode == 0
    assert REASON in ended.stdout
    assert "1 skipped in" in ended.stdout


def test_without_chromium_the_tests_fail_in_ci(tmp_path, pytestconfig):
    ended = run_without_chromium(tmp_path, pytestconfig.rootpath, CI="true")
    assert ended.returncode == 1
    assert f"CI must run these tests: {REASON}" in ended.stdout
    assert "1 error in" in ended.stdout
