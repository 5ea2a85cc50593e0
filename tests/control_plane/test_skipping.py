"""Without Go these tests are skipped, and say why; in CI that is a failure."""

from tests.without_go import REASON, run_without_go

CONFTEST = "tests.control_plane.conftest"


def test_without_go_the_tests_are_skipped_with_the_reason(tmp_path, pytestconfig):
    ended = run_without_go(tmp_path, pytestconfig.rootpath, CONFTEST)
    assert ended.returncode == 0
    assert REASON in ended.stdout
    assert "1 skipped in" in ended.stdout


def test_without_go_the_tests_fail_in_ci(tmp_path, pytestconfig):
    ended = run_without_go(tmp_path, pytestconfig.rootpath, CONFTEST, CI="true")
    assert ended.returncode == 1
    assert f"CI must run these tests: {REASON}" in ended.stdout
    assert "1 error in" in ended.stdout
