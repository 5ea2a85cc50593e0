"""Each alert fires when it should and is quiet when it should, by Prometheus' own rule tests."""

import shutil
import subprocess

import pytest
import yaml

from charts.generate import CHART

RULES = CHART / "files" / "rules.yaml"
PROMTOOL = shutil.which("promtool")
MISSING = "rules are tested with promtool (Debian's package prometheus), and there is none on PATH"
MINUTES = 120
OURS = 'name="fractions.clearml-injector.io",operation="CREATE",type="admit"'
REJECTIONS = f"apiserver_admission_webhook_rejection_count{{{OURS},"
SECONDS = f"apiserver_admission_webhook_admission_duration_seconds_bucket{{{OURS},"
BUCKETS = tuple(f'{SECONDS}le="{bound}"}}' for bound in ("1", "2.5", "+Inf"))

SAME = {
    "PoliciesBroken": ("policy_last_reload_successful", "0x120", "1x117 0x3"),
    "CertificateExpires": ("certificate_expiry_timestamp_seconds", "400000x120", "0x120"),
    "CertificateRefused": ("certificate_swap_errors_total", "0x110 1x10", "0x10 1x110"),
    "Degraded": ("degraded_placements_total", "0+1x120", "0x117 1x3"),
    "WebhookAbsent": ("policy_last_reload_successful", "1x100", "0x120"),
    "ControllerAbsent": ("leading", "1x100", "0x120"),
    "NoLeader": ("leading", "1x110 0x10", "1x120"),
    "WatchIll": ('watch_well{pod="c-0",resource="pods"}', "1x100 0x20", "1x120"),
    "OverCommitted": ("slices_over", "0x90 4x30", "0x120"),
    "AuditDifferences": ("audit_differences", "0x100 1x20", "0x100 1x5 0x15"),
    "NodesHeld": ("nodes_held", "0x90 3x30", "0x110 3x10"),
    "RotationStuck": ('issued_certificate_expiry_timestamp_seconds{certificate="ca"}', "400000x120", "0x120"),
    "ConfigurationNotFound": ("webhook_configuration_missing", "0x110 1x10", "0x120"),
    "CertificateErrors": ("certificate_errors_total", "0x110 1x10", "0x120"),
    "LedgerNotWritten": ("gpuledger_write_errors_total", "0+1x120", "0x118 1x2"),
    "AnotherController": ("gpuledger_terms_behind", "0x110 2x10", "0x120"),
    "BackgroundTaskFails": ('background_task_failures_total{task="publishing"}', "0+1x120", "0x100 1x20"),
}
"""Of each alert a series of ours without its prefix, values by which it fires, and by which it is quiet."""
UNREACHABLE = f'{REJECTIONS}error_type="calling_webhook_error",rejection_code="0"}}'
PASSED_OVER = 'apiserver_admission_webhook_fail_open_count{name="%s",type="admit"}'
CONFIGURED = 'kube_mutatingwebhookconfiguration_info{mutatingwebhookconfiguration="%s"}'
OTHERS = [
    ("InternalErrors", 'fraction_injector_reviews_total{reason="internal-error"}', "0x112 1x7", True),
    ("InternalErrors", 'fraction_injector_reviews_total{reason="label-not-allowed"}', "0+5x120", False),
    ("WebhookUnreachable", UNREACHABLE, "1x110 2x10", True),
    ("WebhookUnreachable", f'{REJECTIONS}error_type="no_error",rejection_code="403"}}', "0+5x120", False),
    ("WebhookPassedOver", PASSED_OVER % "fractions.clearml-injector.io", "1x110 2x10", True),
    ("WebhookPassedOver", PASSED_OVER % "another", "0+5x120", False),
    ("WebhookSlow", BUCKETS, ("0x120", "0+9x120", "0+9x120"), True),
    ("WebhookSlow", BUCKETS, ("0+9x120", "0+9x120", "0+9x120"), False),
    ("PodsNotInjected", 'fraction_injector_pod_events_total{reason="FractionDrift"}', "0x110 1x10", True),
    ("PodsNotInjected", 'fraction_injector_pod_events_total{reason="WaitingForSlices"}', "0+1x120", False),
    ("ConfigurationMissing", CONFIGURED % "another", "1x120", True),
    ("ConfigurationMissing", CONFIGURED % "fraction-injector", "1x120", False),
    # An installation that nobody scrapes is noticed.
    ("WebhookAbsent", "up", "1x120", True),
    ("ControllerAbsent", "up", "1x120", True),
    # The first refusal of all is seen: its series begins with it, so that there is no increase.
    ("WebhookUnreachable", UNREACHABLE, "_x115 1x5", True),
    ("WebhookPassedOver", PASSED_OVER % "fractions.clearml-injector.io", "_x115 1x5", True),
    # A refusal of yesterday is no news.
    ("WebhookUnreachable", UNREACHABLE, "3x120", False),
    ("WebhookPassedOver", PASSED_OVER % "fractions.clearml-injector.io", "3x120", False),
    # Without kube-state-metrics nothing is said of the configuration.
    ("ConfigurationMissing", "up", "1x120", False),
]
"""Alert, series, values, and whether it fires."""
CASES = [
    *((alert, f"fraction_injector_{series}", firing, True) for alert, (series, firing, _) in SAME.items()),
    *((alert, f"fraction_injector_{series}", quiet, False) for alert, (series, _, quiet) in SAME.items()),
    *OTHERS,
]


def promtool_says(*arguments):
    """What promtool prints where it finds no fault."""
    if PROMTOOL is None:
        pytest.fail(MISSING)
    ended = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def case(alert, series, values, firing):
    """A test of promtool: what must hold of the alert after two hours of the series."""
    given = zip(series, values, strict=True) if isinstance(series, tuple) else [(series, values)]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": found} for name, found in given],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="FractionInjector{alert}",alertstate="firing"}})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [{"labels": "{}", "value": 1}] if firing else [],
            }
        ],
    }


def alerts():
    """Rule of each alert, by its name without ours."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return {rule["alert"].removeprefix("FractionInjector"): rule for rule in rules}


def test_what_a_namespace_held_is_recorded_hour_by_hour_and_what_it_uses_of_all_gpus(tmp_path):
    held = 'namespace_slices_allocated{namespace="team",pod="controller-%d"}'
    used = 'agent_container_memory_used_bytes{namespace="team",pod="train",container="main",gpu="%d"}'
    # Four of eight slices for ten hours, then none, as each replica of the controller counts.
    given = [
        {"series": f"fraction_injector_{series}" % number, "values": values}
        for series, values in ((held, "4x599 0x600"), (used, "3x1200"))
        for number in (1, 2)
    ]
    sums = {
        "sum_over_time(namespace:gpus_allocated:max[30d:1h])": 5,
        "sum by (namespace) (namespace:gpu_memory_used_bytes:sum)": 6,
    }
    of_team = '{namespace="team"}'
    expected = [
        {"expr": each, "eval_time": "20h", "exp_samples": [{"labels": of_team, "value": value}]}
        for each, value in sums.items()
    ]
    tests = [{"interval": "1m", "input_series": given, "promql_expr_test": expected}]
    file = tmp_path / "sums.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool_says("test", "rules", str(file))


def test_each_alert_fires_when_it_should_and_is_quiet_when_it_should(tmp_path):
    """One promtool tries all of them, each with its own rule only, and names those that are wrong."""
    files = []
    for alert, rule in alerts().items():
        rules, file = tmp_path / f"{alert}.rules.yaml", tmp_path / f"{alert}.yaml"
        rules.write_text(yaml.safe_dump({"groups": [{"name": alert, "rules": [rule]}]}))
        cases = [case(*each) for each in CASES if each[0] == alert]
        tests = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": cases}
        file.write_text(yaml.safe_dump(tests))
        files.append(str(file))
    promtool_says("check", "rules", str(RULES))
    promtool_says("test", "rules", *files)


def test_every_alert_is_tested_both_ways():
    for fires in (True, False):
        assert alerts().keys() == {alert for alert, *_, each in CASES if each is fires}
