"""docs/reference/metrics.md lists the metrics that there are."""

import json
import re

import yaml

from charts import metrics_page
from charts.metrics_page import OURS, ROOT

FILES = ROOT / "charts" / "fraction-injector" / "files"


def test_the_page_is_what_make_metrics_would_write():
    assert metrics_page.PAGE.read_text() == metrics_page.page()


def test_every_metric_that_alerts_and_panels_name_is_on_the_page():
    listed = set(re.findall(r"^\| `(\w+)", metrics_page.table(), re.MULTILINE))
    assert len(listed) > 30
    groups = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    asking = [rule["expr"] for group in groups for rule in group["rules"]]
    asking += [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for expression in asking for name in re.findall(rf"{OURS}[a-z_]+", expression)}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= listed
