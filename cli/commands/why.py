"""fraction-injector why: what a pod requested, what happened, what it waits for, and what would help."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.cluster import ask
from cli.options import (
    ContextOption,
    GpuResourceOption,
    KubeconfigOption,
    OutputFormat,
    OutputOption,
    fail,
    kubeconfig_of,
    namespace_of,
    resource_names_of,
)
from cli.printing import facts, say, say_json
from modes.resource_names import ONE_GPU_RESOURCE

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer
    from describe.why import WhyAnswer

UNKNOWN = 1
"""Exit status if there is no such pod."""


def why(  # noqa: PLR0913 each is an option of the command
    pod: Annotated[
        str,
        typer.Argument(metavar="POD", help="Name of the pod, or of a Job or Deployment with denied pods."),
    ],
    *,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", show_default="of the kubeconfig's context", help="Namespace of the pod."
        ),
    ] = None,
    output: OutputOption = OutputFormat.TEXT,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Explain in one paragraph what a pod requested, what happened, what it waits for, and what would help.

    Reads the pod and Events of its namespace, and GpuLedgers if you have the right. Exit status: 0 explained,
    1 there is no such pod, 2 it cannot be read.
    """
    names = resource_names_of(gpu_resource)
    name = pod.rpartition("/")[2]
    if not name:
        fail(f'"{pod}" is not a name: use the name of a pod')
    where = namespace or namespace_of(kubeconfig_of(kubeconfig), context)

    async def explain(api: ApiServer) -> WhyAnswer:
        # Here and not above: the other subcommands must start without the client.
        from describe.why import WhyQuery  # noqa: PLC0415

        return await WhyQuery(api, names, datetime.now(UTC)).answer(where, name)

    answer = ask(kubeconfig, context, explain, f"pod {where}/{name} cannot be read")
    if output is OutputFormat.JSON:
        say_json([{"namespace": where, "name": name} | facts(answer)])
    else:
        _print(answer)
    if not answer.is_known:
        raise typer.Exit(UNKNOWN)


def _print(answer: WhyAnswer) -> None:
    """Print the paragraph, wrapped if there is a screen; and, on stderr, what could not be read."""
    text = answer.text
    if sys.stdout.isatty():
        width = max(1, shutil.get_terminal_size().columns)
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    say(text)
    for each in answer.unread:
        say(f"Not read: {each}", err=True)
