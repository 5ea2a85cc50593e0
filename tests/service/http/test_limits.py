"""Bounds of a listener in addition to those of its callers."""

from pathlib import Path

import yaml

from service.http.limits import Limits

VALUES = Path(__file__).parents[3] / "charts" / "fraction-injector" / "values.yaml"


def test_a_request_is_given_up_before_the_api_server_gives_up_its_answer():
    waits = yaml.safe_load(VALUES.read_text())["webhook"]["timeoutSeconds"]
    assert Limits().head_seconds + Limits().body_seconds < waits
