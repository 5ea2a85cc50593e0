"""docs/reference/metrics.md lists the metrics that there are."""

import re

from charts import metrics_page


def test_the_page_is_what_make_metrics_would_write():
    assert metrics_page.PAGE.read_text() == metrics_page.page()


def test_every_metric_that_alerts_and_panels_name_is_on_the_page():
    listed = set(re.findall(r"^\| `(\w+)`", metrics_page.table(), re.MULTILINE))
    assert len(listed) > 30
    assert set(metrics_page.users()) <= listed


def test_labels_are_listed_also_of_what_has_no_series_yet():
    found = {each.name: each for each in metrics_page.families(metrics_page.registries()["controller"])}
    assert found["fraction_injector_namespace_slices_used"].labels == ("namespace",)
    assert found["fraction_injector_pod_events_total"].labels == ("reason",)
    assert found["fraction_injector_build_info"].labels == ("version", "python")
