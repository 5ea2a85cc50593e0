"""The demo's table of pods: the request and the result of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cli.printing import shortened
from kube.names import ASKING_LABELS
from kube.objects import Affinity, preferred_node
from webhook.admission.annotations import GPU_CONTAINER, MEMORY_MIB

MAX_NAME = 16


class Row(Protocol):
    """One row: a decided pod."""

    @property
    def pod(self) -> dict[str, Any]:
        """The pod as it would be stored."""

    @property
    def patch(self) -> list[dict[str, Any]]:
        """The webhook's patch."""

    @property
    def denial(self) -> str | None:
        """Why it was denied, if it was."""


def table(rows: Iterable[Row]) -> Table:
    """Draw one row per pod, within 80 columns."""
    drawn = Table(
        title="What became of each pod",
        title_style="bold",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=0,
        show_edge=False,
    )
    for heading in ("pod", "label", "decision", "container", "GPU resource"):
        drawn.add_column(heading, no_wrap=True)
    drawn.add_column("MiB", justify="right", no_wrap=True, min_width=5)
    drawn.add_column("node\npreferred", no_wrap=True)
    for row in rows:
        drawn.add_row(*_cells(row))
    return drawn


def _cells(row: Row) -> list[str | Text]:
    metadata = row.pod["metadata"]
    annotations = metadata.get("annotations") or {}
    labels = metadata.get("labels") or {}
    label = next((labels[name] for name in ASKING_LABELS if name in labels), "-")
    cells: list[str | Text] = [shortened(metadata["name"], MAX_NAME), shortened(str(label), MAX_NAME)]
    if row.denial is not None:
        return [*cells, Text("denied", "red")]
    if not row.patch:
        return [*cells, "untouched"]
    container = annotations.get(GPU_CONTAINER, "")
    return [
        *cells,
        Text("injected", "green"),
        "the same" if container == metadata["name"] else shortened(container, MAX_NAME),
        _gpu_resources(row.pod, container),
        annotations.get(MEMORY_MIB, "-"),
        _preferred_node(row.pod) or "-",
    ]


def _gpu_resources(pod: dict[str, Any], name: str) -> str:
    chosen = next(each for each in pod["spec"]["containers"] if each["name"] == name)
    limits = chosen["resources"]["limits"]
    return ", ".join(f"{resource}: {amount}" for resource, amount in limits.items() if "gpu" in resource)


def _preferred_node(pod: dict[str, Any]) -> str | None:
    affinity = msgspec.convert(pod["spec"].get("affinity"), Affinity | None)
    return preferred_node(affinity.node_affinity if affinity is not None else None)
