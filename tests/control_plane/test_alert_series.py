"""Alerts on series of the API server: it really has those, and the chart renders rules that are sound."""

import re

import pytest

from charts.generate import CHART
from testbed.api import ApiError
from testbed.process import eventually, free_ports
from testbed.registration import configuration, labelled_pod, probe, refuses, registered

RULES = (CHART / "files" / "rules.yaml").read_text()


def down(**entry):
    return configuration("fractions", f"https://127.0.0.1:{free_ports(1)[0]}/mutate", b"", **entry)


@pytest.fixture
def series(control_plane):
    """Labels of the API server's series of one name, with their values."""

    def read(name):
        text = control_plane.kubectl("get", "--raw", "/metrics").stdout
        found = re.findall(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE)
        return [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in found]

    return read


def of(found, **labels):
    return sum(value for own, value in found if labels.items() <= own.items())


def test_a_refusal_because_nobody_answers_is_counted_as_the_alert_reads_it(series, control_plane, namespace):
    name, entry = "apiserver_admission_webhook_rejection_count", "fractions.clearml-injector.io"
    assert f'{name}{{name="{entry}",' in RULES
    assert 'error_type!="no_error"' in RULES
    before = of(series(name), name=entry, error_type="calling_webhook_error")
    with registered(control_plane.api, down(), namespace, refuses), pytest.raises(ApiError):
        control_plane.api.create(labelled_pod("refused"), namespace)
    assert of(series(name), name=entry, error_type="calling_webhook_error") > before


def test_a_webhook_that_is_passed_over_is_counted_as_the_alert_reads_it(series, control_plane, namespace):
    name, entry = "apiserver_admission_webhook_fail_open_count", "fractions.clearml-injector.io"
    assert f'{name}{{name="{entry}"}}' in RULES
    before = of(series(name), name=entry)
    config = down(failurePolicy="Ignore")

    def counted():
        probe(control_plane.api, namespace)
        return of(series(name), name=entry) > before

    control_plane.api.create(config)
    try:
        eventually(counted, "a pod that came in without the webhook is counted")
    finally:
        control_plane.api.delete(config["kind"], "fractions", api=config["apiVersion"])
