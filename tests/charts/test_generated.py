"""What is made from values.yaml is up to date, and what the chart repeats of the product agrees with it."""

import re
from typing import get_args

import pytest
import yaml

from charts import generate, metrics_page
from controller.pods.pod_findings import Reason as EventReason
from modes.registry import MODES
from policies.loading.build import effective_limiter
from policies.loading.sources import presets
from webhook.admission.denial import Reason

CHART = generate.CHART
FILES = CHART / "files"


@pytest.mark.parametrize("name", ["values.schema.json", "README.md"])
def test_the_file_is_what_make_chart_would_write(name):
    assert (CHART / name).read_text() == generate.generated()[CHART / name]


def test_every_value_that_stands_next_to_a_described_one_is_described():
    keys = list(generate.described_keys((CHART / "values.yaml").read_text()))
    described = {key.path for key in keys}
    assert len(described) == len(keys), "a key is in values.yaml twice"
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for parent in {path[:-1] for path in described}:
        found = values
        for name in parent:
            found = found[name]
        assert {(*parent, name) for name in found} <= described


@pytest.mark.parametrize("mode", MODES)
def test_the_locks_limits_are_the_presets(mode):
    expected = {name: limits(effective_limiter(limiter, mode)) for name, (limiter, _) in presets().items()}
    assert {name: sorted(modes[mode]) for name, modes in table_of("presetLimits").items()} == expected


def test_the_charts_modes_are_the_products():
    assert table_of("modes") == {name: {"resource": mode.default_resource} for name, mode in MODES.items()}


def test_the_locks_limiter_paths_are_the_presets():
    expected = {
        name: paths(effective_limiter(limiter, "per-gpu")) for name, (limiter, _) in presets().items()
    }
    assert table_of("presetPaths") == {name: found for name, found in expected.items() if found}


def test_the_agents_libraries_are_the_presets():
    expected = {}
    for name, (limiter, _) in presets().items():
        if limiter.init_container is not None and limiter.library is not None:
            part = limiter.init_container
            expected[name] = {
                "image": part.image,
                "command": part.command,
                "mountPath": limiter.library.mount_path,
            }
    assert table_of("presetInitContainers") == expected


def table_of(name):
    """A table that a template holds as YAML."""
    template = (CHART / "templates" / "_policies.tpl").read_text()
    [table] = re.findall(rf'define "fraction-injector.{name}" -}}}}\n(.*?){{{{- end', template, re.DOTALL)
    return yaml.safe_load(table)


def paths(limiter):
    return [volume.mount_path for volume in (limiter.library, limiter.cache) if volume is not None]


def limits(limiter):
    memory = [f"{env.name}={env.value}" for env in limiter.env if "{memory_mib}" in env.value]
    preload = [f"LD_PRELOAD={limiter.preload}"] if limiter.preload else []
    return sorted([*memory, *preload])


def registered_metrics():
    return [metric for registry in metrics_page.registries().values() for metric in registry.collect()]


@pytest.mark.parametrize(
    "metric",
    [
        "fraction_injector_background_task_failures_total",
        "fraction_injector_certificate_errors_total",
        "fraction_injector_certificate_writes_total",
        "fraction_injector_gpuledger_write_errors_total",
        "fraction_injector_pod_events_total",
        "fraction_injector_webhook_configuration_missing",
    ],
)
def test_what_never_happened_is_counted_as_zero(metric):
    # An alert asks for an increase, and the first of a series that appears with 1 is none.
    values = {s.value for each in registered_metrics() for s in each.samples if s.name == metric}
    assert values == {0.0}


@pytest.mark.parametrize("file", ["rules.yaml", "dashboard.json"])
def test_alerts_and_panels_ask_for_reasons_that_exist(file):
    for reason in re.findall(r'reason=\\?"([^"\\]+)', (FILES / file).read_text()):
        assert reason in {*Reason, *get_args(EventReason)}


def test_every_alert_says_what_is_wrong_and_how_bad():
    groups = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}
