"""Kubernetes objects from files: YAML, JSON, and Lists, as kubectl reads and prints them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from cli.kubernetes_yaml import MAX_BYTES, MAX_DEPTH, UnusableTextError, depth, read_documents
from ledger.from_kubernetes import node_from_object, pod_from_object
from ledger.ledger import Ledger
from modes.facts import NodeFact
from modes.resource_names import ResourceNames
from policies.model.problems import printable

if TYPE_CHECKING:
    from controller.watch.gpu_node import AgentReport

STANDARD_INPUT = Path("-")

_OF_CONTROLLER = ("GpuNode", "ResourceSlice", "ResourceClaim")
"""Kinds that only inventories of some clusters have."""
_TEXTS = ("apiVersion", "metadata.name", "metadata.generateName", "metadata.namespace")
_TEMPLATE = ("metadata", "spec", "spec.template", "spec.template.metadata", "spec.template.spec")
_OBJECTS = (*_TEMPLATE, "spec.jobTemplate", *[f"spec.jobTemplate.{each}" for each in _TEMPLATE])


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
        documents = read_documents(content_of(file, MAX_BYTES))
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror}: name a file that can be read") from None
    except UnusableTextError as error:
        raise ManifestError(f"{file}: {error}") from None
    objects = [found for document in documents for found in _objects(document, file)]
    if not objects:
        raise ManifestError(f"{file}: contains no object: add a Kubernetes object with apiVersion and kind")
    return objects


def read_inventory(file: Path, names: ResourceNames) -> Ledger:
    """Return the ledger of an inventory, from the output of `kubectl get -o yaml`.

    It has Nodes, and optional Pods, GpuNodes, ResourceSlices and ResourceClaims. Without any GpuNode it is
    unknown which nodes run an agent; with one, nodes without a GpuNode run none.

    Args:
        file: the file.
        names: extended resources to count.

    Raises:
        ManifestError: see `read_objects`; also if the file has no Node, or other objects.
    """
    objects = read_objects(file)
    readers: dict[str, Callable[[dict[str, Any]], Any]] = {
        "Node": partial(node_from_object, names=names),
        "Pod": partial(pod_from_object, names=names),
        **dict.fromkeys(_OF_CONTROLLER, _refuse),
    }
    if not {found["kind"] for found in objects}.isdisjoint(_OF_CONTROLLER):
        readers |= _readers_of_controller()
    read: dict[str, list[Any]] = {kind: [] for kind in readers}
    for found in objects:
        kind = found["kind"]
        if kind not in readers:
            raise ManifestError(
                f"{file}: kind {kind} is not a Node: an inventory is `kubectl get nodes -o yaml`"
            )
        try:
            read[kind].append(readers[kind](found))
        except ValueError as error:
            raise ManifestError(f"{file}: {kind} {_name(found)}: {error}") from None
    nodes, pods, reports, offers, claims = read.values()
    if not nodes:
        raise ManifestError(f"{file}: holds no Node: an inventory is what `kubectl get nodes -o yaml` prints")
    # Without a cluster there are only reservations, so none may be dropped.
    ledger = Ledger(most_reservations=sys.maxsize)
    # Before the pods: quotas count these by the cards that there are.
    for offer in offers:
        ledger.put_offer(offer)
    for claim in claims:
        ledger.cards.put_claim(claim)
    by_node = {report.node: report for report in reports}
    ledger.replace([_with_agent(each, by_node.get(each.name)) for each in nodes] if reports else nodes, pods)
    return ledger


def _readers_of_controller() -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Return what reads objects as the controller does, but refuses one that it would ignore."""
    # Here and not above: a webhook with an inventory must run without the Kubernetes client.
    from controller.watch.card_claims import card_claims  # noqa: PLC0415
    from controller.watch.claim_cards import offered_slices  # noqa: PLC0415
    from controller.watch.gpu_node import report_from_object  # noqa: PLC0415

    slices, claims = offered_slices(_refuse).reader, card_claims(_refuse).reader
    return {
        "GpuNode": report_from_object,
        "ResourceSlice": lambda found: slices.read_object(msgspec.json.encode(found)),
        "ResourceClaim": lambda found: claims.read_object(msgspec.json.encode(found)),
    }


def _refuse(_name: Any, why: str = "") -> NoReturn:
    raise ValueError(why)


def _with_agent(node: NodeFact, report: AgentReport | None) -> NodeFact:
    from controller.watch.gpu_node import with_report  # noqa: PLC0415 as above

    if report is None:
        return with_report(node, None, "missing")
    return with_report(node, report, "serving" if report.is_registered else "away")


def content_of(file: Path, most: int) -> bytes:
    """Read no more of a file, or of a device, than one byte more than `most`."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(most + 1)
    with file.open("rb") as stream:
        return stream.read(most + 1)


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
    shape: list[tuple[str, type, str]] = [(path, str, "text") for path in _TEXTS]
    for path, kind, called in [*shape, *[(path, dict, "an object") for path in _OBJECTS]]:
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
