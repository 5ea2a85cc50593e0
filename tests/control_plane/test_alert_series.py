"""Alerts on series of the API server: it really has those, and the chart renders rules that are sound."""

import re

import pytest

from charts.generate import CHART
from testbed.api import ApiError
from testbed.process import eventually, free_ports
from testbed.registration import configuration, labelled_pod, probe, refuses, registered

ENTRY = "fractions.clearml-injector.io"
RULES = (CHART / "files" / "rules.yaml").read_text()


def down(**entry):
    return configuration("fractions", f"https://127.0.0.1:{free_ports(1)[0]}/mutate", b"", **entry)


def counted(control_plane, series, **labels):
    """The sum of the API server's series of one name with these labels."""
    text = control_plane.kubectl("get", "--raw", "/metrics").stdout
    found = re.findall(rf"^{series}{{(.*)}} (\S+)$", text, re.MULTILINE)
    read = [(dict(re.findall(r'(\w+)="([^"]*)"', own)), float(value)) for own, value in found]
    return sum(value for own, value in read if labels.items() <= own.items())


def test_a_refusal_because_nobody_answers_is_counted_as_the_alert_reads_it(control_plane, namespace):
    name = "apiserver_admission_webhook_rejection_count"
    assert f'{name}{{name="{ENTRY}",' in RULES
    assert 'error_type!="no_error"' in RULES
    labels = {"name": ENTRY, "error_type": "calling_webhook_error"}
    before = counted(control_plane, name, **labels)
    with registered(control_plane.api, down(), namespace, refuses), pytest.raises(ApiError):
        control_plane.api.create(labelled_pod("refused"), namespace)
    assert counted(control_plane, name, **labels) > before


def test_a_webhook_that_is_passed_over_is_counted_as_the_alert_reads_it(control_plane, namespace):
    name = "apiserver_admission_webhook_fail_open_count"
    assert f'{name}{{name="{ENTRY}"}}' in RULES
    before = counted(control_plane, name, name=ENTRY)
    config = down(failurePolicy="Ignore")

    def grows():
        probe(control_plane.api, namespace)
        return counted(control_plane, name, name=ENTRY) > before

    control_plane.api.create(config)
    try:
        eventually(grows, "a pod that came in without the webhook is counted")
    finally:
        control_plane.api.delete(config["kind"], "fractions", api=config["apiVersion"])
