"""Kubernetes objects from files: YAML, JSON, and Lists, as kubectl reads and prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cli.kubernetes_yaml import MAX_BYTES, MAX_DEPTH, UnusableTextError, depth, read_documents
from ledger.from_kubernetes import node_from_object, pod_from_object
from modes.facts import NodeAgent, NodeFact, PodFact
from modes.resource_names import ResourceNames
from policies.model.problems import printable

if TYPE_CHECKING:
    from controller.watch.gpu_node import AgentReport

STANDARD_INPUT = Path("-")

_SHAPE = (
    ("apiVersion", str, "text"),
    ("metadata", dict, "an object"),
    ("metadata.name", str, "text"),
    ("metadata.generateName", str, "text"),
    ("metadata.namespace", str, "text"),
    ("spec", dict, "an object"),
    ("spec.template", dict, "an object"),
    ("spec.template.metadata", dict, "an object"),
    ("spec.template.spec", dict, "an object"),
    ("spec.jobTemplate", dict, "an object"),
    ("spec.jobTemplate.metadata", dict, "an object"),
    ("spec.jobTemplate.spec", dict, "an object"),
    ("spec.jobTemplate.spec.template", dict, "an object"),
    ("spec.jobTemplate.spec.template.metadata", dict, "an object"),
    ("spec.jobTemplate.spec.template.spec", dict, "an object"),
)


class ManifestError(ValueError):
    """An unusable file.

    Args:
        text: names the file, the document and the rule; kept as one printable line.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


def read_objects(file: Path) -> list[dict[str, Any]]:
    """Read every object of a file; Lists are expanded.

    Raises:
        ManifestError: the file cannot be read, is neither YAML nor JSON, or holds something else.
    """
    try:
        documents = read_documents(_content(file))
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror}: name a file that can be read") from None
    except UnusableTextError as error:
        raise ManifestError(f"{file}: {error}") from None
    objects = [found for document in documents for found in _objects(document, file)]
    if not objects:
        raise ManifestError(f"{file}: contains no object: add a Kubernetes object with apiVersion and kind")
    return objects


def read_inventory(file: Path, names: ResourceNames) -> tuple[list[NodeFact], list[PodFact]]:
    """Read Nodes, and optional Pods and GpuNodes, from the output of `kubectl get -o yaml`.

    Without any GpuNode it is unknown which nodes run an agent; with one, nodes without a GpuNode run none.

    Raises:
        ManifestError: see `read_objects`; also if the file has no Node, or other objects.
    """
    nodes: list[NodeFact] = []
    pods: list[PodFact] = []
    reports: dict[str, AgentReport] = {}
    for found in read_objects(file):
        kind = found["kind"]
        if kind not in ("Node", "Pod", "GpuNode"):
            raise ManifestError(
                f"{file}: kind {kind} is not a Node: an inventory is `kubectl get nodes -o yaml`"
            )
        try:
            if kind == "Node":
                nodes.append(node_from_object(found, names))
            elif kind == "GpuNode":
                reports[_name(found)] = _report(found)
            else:
                pods.append(pod_from_object(found, names))
        except ValueError as error:
            raise ManifestError(f"{file}: {kind} {_name(found)}: {error}") from None
    if not nodes:
        raise ManifestError(f"{file}: holds no Node: an inventory is what `kubectl get nodes -o yaml` prints")
    return [_with_agent(node, reports) for node in nodes] if reports else nodes, pods


def _report(found: dict[str, Any]) -> AgentReport:
    # Here and not above: a webhook with an inventory must run without the Kubernetes client.
    from controller.watch.gpu_node import report_from_object  # noqa: PLC0415

    return report_from_object(found)


def _with_agent(node: NodeFact, reports: Mapping[str, AgentReport]) -> NodeFact:
    from controller.watch.gpu_node import with_report  # noqa: PLC0415

    report = reports.get(node.name)
    agent: NodeAgent = "missing"
    if report is not None:
        agent = "serving" if report.is_registered else "away"
    return with_report(node, report, agent)


def _content(file: Path) -> bytes:
    """Read no more of a file, or of a device, than one byte too many."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _name(found: dict[str, Any]) -> str:
    metadata = found.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else "without metadata"


def _objects(document: Any, file: Path) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{file}: a document is not a Kubernetes object: it needs apiVersion and kind")
    _check_shape(document, file)
    items = document.get("items")
    if document["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            yield from _objects(item, file)
    else:
        yield _plain(document, file)


def _check_shape(document: dict[str, Any], file: Path) -> None:
    """Check the fields that contain pods; the review checks the pods themselves.

    Raises:
        ManifestError: one of them is neither missing nor of its kind.
    """
    for path, kind, called in _SHAPE:
        value: Any = document
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and not isinstance(value, kind):
            raise ManifestError(f"{file}: {document['kind']}: {path} is {value!r:.60}: it must be {called}")


def _plain(document: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return an object as in JSON: no part is shared, even if YAML has aliases."""
    try:
        plain = dict(msgspec.json.decode(msgspec.json.encode(document)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ManifestError(f"{file}: {document['kind']}: is more than JSON can say: {error}") from None
    if depth(plain) > MAX_DEPTH:
        rule = f"is nested more than {MAX_DEPTH} deep: no Kubernetes object is"
        raise ManifestError(f"{file}: {document['kind']}: {rule}")
    return plain
