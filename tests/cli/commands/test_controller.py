"""What the controller's command line refuses before it starts anything."""

import pytest

from tests.cli.running import error_line, run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lease-duration=5"], "--lease-retry 1.0, --renew-deadline 5.0 and --lease-duration 5.0"),
        (["--issue-certificates=x", "--inject-ca=x"], "--issue-certificates injects the CA that it issues"),
        (["--kubeconfig=missing"], "there is no kubeconfig missing: pass --kubeconfig FILE"),
    ],
)
def test_a_mistake_is_reported_in_one_line(options, message, tmp_path):
    ended = run("controller", f"--tls-dir={tmp_path}", f"--policies={tmp_path}", *options)
    assert error_line(ended).startswith(message)
