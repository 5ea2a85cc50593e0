# ruff: noqa: INP001 - a script, not part of a package
"""`make metrics`: generates the table of docs/reference/metrics.md from the registries of our processes.

A name is followed by the metric's labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from prometheus_client import CollectorRegistry

from agent.metrics import AgentMetrics
from agent.usage_metrics import UsageMetrics
from controller.certificates.metrics import CertificateMetrics
from controller.process import Task
from controller.publish import gpu_metrics
from controller.publish.metrics import ControllerMetrics, LedgerCollector
from controller.publish.usage_metrics import UsageCollector
from controller.watch.ledger_store import LedgerStore
from service.metrics import PolicyMetrics
from service.process import Process
from service.served_certificate import ServedCertificate
from webhook.metrics import WebhookMetrics

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "metrics.md"
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
    CertificateMetrics(controller)
    store = LedgerStore(lambda: 0.0)
    controller.register(LedgerCollector(store))
    controller.register(UsageCollector(store.ledger, tuple, tuple))
    for registry in (webhook, controller):
        ServedCertificate(registry, "/tls")
        registry.register(PolicyMetrics(lambda: None, lambda: None))
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


def table() -> str:
    """Return a table of the metrics of each process, or of several that share them, by name."""
    processes: dict[Family, list[str]] = {each: ["leader, at `/metrics/gpus`"] for each in of_gpus()}
    for process, registry in registries().items():
        for family in families(registry):
            processes.setdefault(family, []).append(process)
    tables: dict[str, list[str]] = {}
    for each, by in sorted(processes.items(), key=lambda item: item[0].name):
        labels = f"{{{','.join(each.labels)}}}" if each.labels else ""
        tables.setdefault(", ".join(by), []).append(f"| `{each.name}{labels}` | {each.text} |")
    return "\n\n".join(
        "\n".join([f"## {by.capitalize()}", "", "| metric, with its labels | meaning |", "|---|---|", *rows])
        for by, rows in sorted(tables.items())
    )


def page() -> str:
    """Return docs/reference/metrics.md as it should be."""
    prose, _, _ = PAGE.read_text().partition(MARKER)
    return f"{prose}{MARKER}\n\n{table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
