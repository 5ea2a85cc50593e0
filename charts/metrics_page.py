# ruff: noqa: INP001 - a script, not part of a package
"""`make metrics`: generates the table of docs/reference/metrics.md from the registries of our processes.

The table also names the alerts and the dashboard that use a metric.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import yaml
from prometheus_client import CollectorRegistry

from agent.metrics import AgentMetrics
from agent.usage_metrics import UsageMetrics
from controller.certificates.metrics import CertificateMetrics
from controller.geometry.metrics import GeometryMetrics
from controller.node_agents.metrics import NodeAgentMetrics
from controller.process import Task
from controller.publish import gpu_metrics
from controller.publish.metrics import ControllerMetrics, LedgerCollector
from controller.publish.usage_metrics import UsageCollector
from controller.watch.ledger_store import LedgerStore
from service.metrics import PolicySince, policy_info
from service.process import Process
from service.served_certificate import ServedCertificate
from webhook.metrics import WebhookMetrics

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "metrics.md"
FILES = ROOT / "charts" / "fraction-injector" / "files"
MARKER = "<!-- From here on made by `make metrics` from the registries. -->"
OURS = "fraction_injector_"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, as scraped."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def registries() -> dict[str, CollectorRegistry]:
    """Return each process's registry, with all collectors and no data."""
    webhook = Process("webhook", (), 0).registry
    WebhookMetrics(webhook)
    controller = Process("controller", get_args(Task), 0).registry
    ControllerMetrics(controller)
    GeometryMetrics(controller)
    CertificateMetrics(controller)
    NodeAgentMetrics(controller)
    store = LedgerStore(lambda: 0.0)
    controller.register(LedgerCollector(store))
    controller.register(UsageCollector(store.ledger, tuple, tuple))
    for registry in (webhook, controller):
        ServedCertificate(registry, "/tls")
        registry.register(policy_info(lambda: None))
        registry.register(PolicySince(lambda: None))
    agent = Process("agent", (), 0).registry
    AgentMetrics(agent)
    UsageMetrics(agent)
    return {"webhook": webhook, "controller": controller, "agent": agent}


def families(registry: CollectorRegistry) -> Iterator[Family]:
    """Yield our metrics of a registry, including those without a series."""
    # The registry has no public method for the label names of a metric without series.
    for collector in registry._collector_to_names:  # noqa: SLF001
        for metric in collector.collect():
            labels = getattr(collector, "_labelnames", None) or getattr(metric, "_labelnames", ())
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            if name.startswith(OURS):
                yield Family(name, metric.type, tuple(labels), metric.documentation)


def of_gpus() -> list[Family]:
    """Return the metrics of each GPU and card, which are in no registry."""
    of_card = "node", "driver", "card", "state"
    return [
        Family(gpu_metrics.NAME, "gauge", ("node", "gpu", "state"), gpu_metrics.HELP),
        Family(gpu_metrics.CARD_NAME, "gauge", of_card, gpu_metrics.CARD_HELP),
    ]


def users() -> Mapping[str, list[str]]:
    """Return the alerts that use each metric, and `dashboard` if a panel does."""
    found: dict[str, list[str]] = {}
    groups = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]
    asking = [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    asking += [("dashboard", target["expr"]) for panel in panels for target in panel["targets"]]
    for name, expression in asking:
        for metric in re.findall(rf"{OURS}[a-z_]+", expression):
            who = found.setdefault(re.sub(r"_(bucket|sum|count)$", "", metric), [])
            if name not in who:
                who.append(name)
    return found


def table() -> str:
    """Return the table of all metrics, by name."""
    at = "controller, the leader, at `/metrics/gpus`"
    processes: dict[Family, list[str]] = {each: [at] for each in of_gpus()}
    for process, registry in registries().items():
        for family in families(registry):
            processes.setdefault(family, []).append(process)
    asked = users()
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | "
        f"{', '.join(by)} | {each.text} | {', '.join(asked.get(each.name, []))} |"
        for each, by in sorted(processes.items(), key=lambda item: item[0].name)
    ]
    head = ["| metric | kind | labels | process | meaning | used by |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def page() -> str:
    """Return docs/reference/metrics.md as it should be."""
    prose, _, _ = PAGE.read_text().partition(MARKER)
    return f"{prose}{MARKER}\n\n{table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
