"""The control plane itself: its version, and that nothing of it is left."""

import json

import pytest

from testbed.kubernetes_version import UNDER_TEST


@pytest.mark.oldest_kubernetes
def test_the_api_server_and_kubectl_say_their_version(kubectl):
    answer = kubectl("version", "--output=json")
    assert (answer.code, answer.stderr) == (0, "")
    versions = json.loads(answer.stdout)
    assert versions["serverVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"
    assert versions["clientVersion"]["gitVersion"] == f"v{UNDER_TEST.version}"
