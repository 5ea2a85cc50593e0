"""fraction-injector cordon and uncordon: exclude GPUs of a node from placement, or include them again."""

from __future__ import annotations

import re
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from cli.cluster import ask
from cli.options import ContextOption, GpuResourceOption, KubeconfigOption, fail, resource_names_of
from cli.printing import say
from kube.cordon import indices_of, written
from kube.dra import DRIVER
from kube.names import CORDON_ANNOTATION, RESOURCE_SLICES_PATH
from modes.resource_names import ONE_GPU_RESOURCE, ResourceNames

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]
GpuArgument = Annotated[
    list[int] | None,
    typer.Argument(metavar="[GPU]...", min=0, max=999, show_default="all of the node", help="Their numbers."),
]
_CARD = re.compile(r"gpu-([0-9]{1,3})", re.ASCII)
"""Devices of the agent (agent/dra/resource_slice.py)."""


def cordon(
    node: NodeArgument,
    gpus: GpuArgument = None,
    *,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Place no new pods on GPUs of a node; pods that hold shares of them stay.

    Writes the annotation clearml-injector/cordon of the Node, so it needs the right to patch nodes.
    """
    _change((kubeconfig, context), node, gpus, gpu_resource, out=True)


def uncordon(
    node: NodeArgument,
    gpus: GpuArgument = None,
    *,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Place new pods on GPUs of a node again; the inverse of cordon."""
    _change((kubeconfig, context), node, gpus, gpu_resource, out=False)


def _change(
    server: tuple[Path | None, str | None], node: str, gpus: list[int] | None, resource: str, *, out: bool
) -> None:
    write = partial(_write, node=node, names=resource_names_of(resource), gpus=gpus, out=out)
    if after := ask(*server, write, f"node {node} cannot be changed"):
        listed = ", ".join(map(str, sorted(after)))
        say(f"node {node}: no new pods on GPU {listed}; those that run there stay")
    else:
        say(f"node {node}: new pods on every GPU")


async def _write(
    api: ApiServer, node: str, names: ResourceNames, gpus: list[int] | None, *, out: bool
) -> frozenset[int]:
    """Change the node's cordoned GPUs, based on its current annotation, and return them."""
    # Here and not above: help waits neither for the Kubernetes client nor for the ledger's code.
    from cluster.kube_client import MERGE_PATCH, ApiError  # noqa: PLC0415
    from ledger.from_kubernetes import slices_by_index  # noqa: PLC0415

    path, tries = f"/api/v1/nodes/{quote(node, safe='')}", 3
    while True:
        found = msgspec.json.decode(await api.request("GET", path))
        there = {index for index, _ in slices_by_index(found["status"].get("capacity") or {}, names)}
        after = _after(found, gpus, there or await _numbers_of_cards(api, node), node, out=out)
        changed = {CORDON_ANNOTATION: written(after) if after else None}
        version = found["metadata"].get("resourceVersion", "")
        body = {"metadata": {"resourceVersion": version, "annotations": changed}}
        try:
            await api.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            # The node was changed in between: read it again.
            tries -= 1
            if error.status != HTTPStatus.CONFLICT or not tries:
                raise
        else:
            return after


async def _numbers_of_cards(api: ApiServer, node: str) -> set[int]:
    """Return the numbers of the cards that the node's agent offers to claims."""
    query = {"fieldSelector": f"spec.nodeName={node},spec.driver={DRIVER}"}
    found = msgspec.json.decode(await api.request("GET", RESOURCE_SLICES_PATH, query=query))
    devices = [device for each in found["items"] for device in each["spec"].get("devices") or ()]
    matches = [_CARD.fullmatch(device["name"]) for device in devices]
    return {int(match[1]) for match in matches if match is not None}


def _after(
    found: dict[str, Any], gpus: list[int] | None, there: set[int], node: str, *, out: bool
) -> frozenset[int]:
    """Return the GPUs that are cordoned afterwards, or end the command if the node lacks one."""
    annotations = found["metadata"].get("annotations") or {}
    before = indices_of(annotations.get(CORDON_ANNOTATION, ""))
    if not out:
        return before - set(gpus) if gpus else frozenset()
    if not there:
        fail(f"node {node} offers neither slices of GPUs by index nor cards of {DRIVER}")
    if absent := sorted(set(gpus or ()) - there):
        fail(f"node {node} has no GPU {absent[0]}: it has {written(there)}")
    return before | set(gpus or there)
