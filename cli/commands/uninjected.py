"""fraction-injector uninjected: lists pods that use GPUs without an injection."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
import typer

from cli.cluster import ask
from cli.options import (
    ContextOption,
    GpuResourceOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    fail,
    resource_names_of,
)
from cli.printing import say, say_json, table
from modes.resource_names import ONE_GPU_RESOURCE

SOME = 1
"""Exit status if there are such pods."""


def uninjected(
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", show_default="all", help="Only pods of this namespace.")
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """List pods that use GPUs or request a share, and were never injected: nothing here limits them.

    They have our label but no injection, request GPUs without it, or name devices in NVIDIA_VISIBLE_DEVICES,
    such as device plugins and monitors. Exit status: 0 there are none, 1 some, 2 they cannot be listed.
    """
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from describe.uninjected import list_uninjected  # noqa: PLC0415

    question = partial(list_uninjected, names=resource_names_of(gpu_resource), namespace=namespace)
    try:
        found = ask(kubeconfig, context, question, "pods cannot be listed")
    except msgspec.MsgspecError as error:
        fail(f"pods cannot be read: {error}")
    if output is OutputFormat.JSON:
        say_json(found)
    elif found:
        rows = [(each.namespace, each.pod, each.node or "-", each.why) for each in found]
        say(table([("NAMESPACE", "POD", "NODE", "WHY"), *rows]))
    else:
        say("every pod that uses a GPU was injected")
    raise typer.Exit(SOME if found else 0)
