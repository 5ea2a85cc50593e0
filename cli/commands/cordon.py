"""fraction-injector cordon and uncordon: exclude GPUs of a node from placement, or include them again."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from cli.cluster import ask
from cli.options import (
    ContextOption,
    GpuResourceOption,
    KubeconfigOption,
    fail,
    resource_names_of,
)
from cli.printing import say
from kube.names import CORDON_ANNOTATION
from ledger.cordon import indices_of, written
from ledger.node_capacity import slices_by_index
from modes.resource_names import ONE_GPU_RESOURCE, ResourceNames

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]
GpuArgument = Annotated[
    list[int] | None,
    typer.Argument(metavar="[GPU]...", min=0, max=999, show_default="all of the node", help="Their numbers."),
]
ATTEMPTS = 3


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Status(msgspec.Struct):
    capacity: dict[str, Any] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _Status


def cordon(
    node: NodeArgument,
    gpus: GpuArgument = None,
    *,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Place no new pods on GPUs of a node; pods that hold slices of them stay.

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
    names = resource_names_of(resource)

    async def write(api: ApiServer) -> frozenset[int]:
        return await _write(api, node, lambda found: _after(found, gpus, names, node, out=out))

    after = ask(*server, write, f"node {node} cannot be changed")
    if after:
        say(
            f"node {node}: no new pods on GPU {', '.join(map(str, sorted(after)))}; those that run there stay"
        )
    else:
        say(f"node {node}: new pods on every GPU")


async def _write(api: ApiServer, node: str, change: Callable[[_Node], frozenset[int]]) -> frozenset[int]:
    """Update the node's cordoned GPUs, based on its current annotation, and return them."""
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from cluster.kube_client import MERGE_PATCH, ApiError  # noqa: PLC0415

    path = f"/api/v1/nodes/{quote(node, safe='')}"
    for attempt in range(ATTEMPTS):
        found = msgspec.json.decode(await api.request("GET", path), type=_Node)
        after = change(found)
        try:
            await api.request("PATCH", path, body=_patch(found, after), content_type=MERGE_PATCH)
        except ApiError as error:
            # The node was changed in between: read it again.
            if error.status != HTTPStatus.CONFLICT or attempt == ATTEMPTS - 1:
                raise
        else:
            return after
    raise AssertionError("the last attempt returns or raises")


def _after(
    found: _Node, gpus: list[int] | None, names: ResourceNames, node: str, *, out: bool
) -> frozenset[int]:
    """Return the GPUs that are cordoned afterwards, or end the command if the node lacks one."""
    there = {index for index, _ in slices_by_index(found.status.capacity, names)}
    before = indices_of(found.metadata.annotations.get(CORDON_ANNOTATION, ""))
    if not out:
        return before - set(gpus) if gpus else frozenset()
    if not there:
        fail(f"node {node} has no GPUs with a resource of their own ({names.per_gpu_prefix}0 and so on)")
    if absent := sorted(set(gpus or ()) - there):
        fail(f"node {node} has no GPU {absent[0]}: it has {written(there)}")
    return before | set(gpus or there)


def _patch(found: _Node, after: frozenset[int]) -> dict[str, Any]:
    value = written(after) if after else None
    version = found.metadata.resource_version
    return {"metadata": {"resourceVersion": version, "annotations": {CORDON_ANNOTATION: value}}}
