"""The reference of policy files, made from the model."""

from policies.loading.reference import json_schema, markdown
from tests.policies.console import ROOT

PAGES = [ROOT / "docs" / "reference" / name for name in ("policy-keys.md", "limiter-and-queue-keys.md")]


def test_the_reference_is_what_the_model_says():
    begin, end = "<!-- reference: begin -->\n", "<!-- reference: end -->"
    reference = "".join(page.read_text().partition(begin)[2].partition(end)[0] for page in PAGES)
    assert reference == markdown(), "put the output of `policy schema --tables` between the pages' marks"


def test_a_limiter_that_extends_a_preset_may_leave_out_what_the_preset_gives():
    limiter = json_schema()["$defs"]["Limiter"]
    assert limiter["if"] == {"required": ["extends"]}
    assert "initContainer" in limiter["then"]["propertyNames"]["enum"]
    assert "required" in limiter["else"]["properties"]["initContainer"]
