"""A webhook that cannot be reached or believed stops labelled pods, and nothing else."""

from contextlib import contextmanager

import pytest

from testbed.admission_server import AdmissionServer, allow
from testbed.api import ApiError
from testbed.process import free_ports
from testbed.registration import (
    LABEL,
    configuration,
    labelled_pod,
    refuses,
    registered,
)


@contextmanager
def down():
    yield configuration("down", f"https://127.0.0.1:{free_ports(1)[0]}/mutate", b"")


@contextmanager
def wrong_ca():
    with AdmissionServer(allow) as server, AdmissionServer(allow) as other:
        yield configuration("wrong-ca", server.url, other.ca_pem)


@contextmanager
def garbage():
    with AdmissionServer(lambda _: b"<html>not a review</html>") as server:
        yield configuration("garbage", server.url, server.ca_pem)


FAILURES = {
    down: "connect: connection refused",
    wrong_ca: "tls: failed to verify certificate: x509: certificate signed by unknown authority",
    garbage: "couldn't get version/kind; json parse error",
}


@pytest.fixture(params=FAILURES, ids=lambda failure: failure.__name__)
def failure(request, control_plane, namespace):
    """Register a webhook that fails; give the name of its entry and what the API server says of it."""
    with request.param() as config, registered(control_plane.api, config, namespace, refuses):
        yield config["webhooks"][0]["name"], FAILURES[request.param]


def test_a_labelled_pod_is_refused_with_the_cause_and_nothing_else(
    failure, control_plane, namespace, own_namespace
):
    (entry, cause), api = failure, control_plane.api
    with pytest.raises(ApiError) as refused:
        api.create(labelled_pod("labelled"), namespace)
    assert refused.value.code == 500
    assert str(refused.value).startswith(f'Internal error occurred: failed calling webhook "{entry}": ')
    assert cause in str(refused.value)
    unlabelled = labelled_pod("unlabelled")
    del unlabelled["metadata"]["labels"]
    api.create(unlabelled, namespace)
    for excluded in (own_namespace, "kube-system"):
        made = api.create(labelled_pod("labelled"), excluded, dry_run=True)
        assert made["metadata"]["labels"] == {LABEL: "0.125"}
