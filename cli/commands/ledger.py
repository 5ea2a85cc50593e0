"""fraction-injector ledger: shows which pods hold which slices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cli.cluster import ask
from cli.options import (
    RELEASE,
    AllNamespacesOption,
    ContextOption,
    GpuResourceOption,
    KubeconfigOption,
    LedgerOutput,
    ReleaseOption,
    fail,
    resource_names_of,
)
from cli.printing import say, say_json, table
from modes.resource_names import ONE_GPU_RESOURCE

if TYPE_CHECKING:
    from describe.uninjected import Uninjected

SOME = 1
"""Exit status if pods were not injected."""

WatchOption = Annotated[bool, typer.Option("--watch", help="Print it again when it changes, until Ctrl-C.")]
LedgerOutputOption = Annotated[
    LedgerOutput,
    typer.Option("--output", "-o", help="wide: full names, products, memory; json: everything."),
]
FreeOption = Annotated[
    int | None, typer.Option(min=1, help="Only GPUs with at least this number of free slices.")
]


def ledger(  # noqa: PLR0913 each is an option of the command
    *,
    watch: WatchOption = False,
    output: LedgerOutputOption = LedgerOutput.TEXT,
    node: Annotated[str | None, typer.Option(help="Only nodes with this name; * matches any text.")] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Only GPUs of which pods of this namespace hold a share."),
    ] = None,
    all_namespaces: AllNamespacesOption = False,
    queue: Annotated[
        str | None, typer.Option(help="Only GPUs of which pods of this ClearML queue hold a share.")
    ] = None,
    free: FreeOption = None,
    use: Annotated[
        bool,
        typer.Option(
            "--use",
            help="One line for each share: what its pod uses of it, as the node's agent measures it; and the"
            " GPU hours of namespaces and queues.",
        ),
    ] = False,
    uninjected: Annotated[
        bool,
        typer.Option(
            "--uninjected",
            help="Instead, the pods that use GPUs or request a share, and were never injected.",
        ),
    ] = False,
    gpu_resource: GpuResourceOption = ONE_GPU_RESOURCE,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Instead, by queue and owner, the smallest shares that would have held what pods used.",
        ),
    ] = False,
    release: ReleaseOption = RELEASE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show nodes, their GPUs slice by slice, and the pods that hold them, from GpuLedgers.

    If you may not list these, --namespace shows its pods instead. Of cards that a DRA driver offers it shows
    the MiB that claims hold. A ledger that is longer than the screen is shown by node. With --uninjected the
    exit status is 1 if there are such pods. --suggest compares the controller's history of at most 30 days;
    peaks between two measurements, every 15 s, are not seen.
    """
    # Here and not above: help does not wait for the ledger's code.
    from cli.ledger_filter import Filter  # noqa: PLC0415
    from cli.ledger_screen import show, source  # noqa: PLC0415

    namespace = None if all_namespaces else namespace
    asked = Filter(node, namespace, queue, free)
    if use or uninjected or suggest:
        if watch:
            fail("--use, --uninjected and --suggest read once: leave out --watch")
        if use + uninjected + suggest > 1:
            fail("--use, --uninjected and --suggest print other things: choose one")
        # Here and not above: help does not wait for the ledger's code.
        from cli.use_tables import print_suggestions, print_uses  # noqa: PLC0415

        as_json = output is LedgerOutput.JSON
        if use:
            print_uses(asked, release, kubeconfig, context, as_json=as_json)
            return
        if asked != Filter(namespace=namespace):
            fail("--uninjected and --suggest go with --namespace: leave out --node, --queue and --free")
        if suggest:
            print_suggestions(namespace, release, kubeconfig, context, as_json=as_json)
            return
        from describe.uninjected import list_uninjected  # noqa: PLC0415 as above

        names = resource_names_of(gpu_resource)
        question = partial(list_uninjected, names=names, namespace=namespace)
        found = ask(kubeconfig, context, question, "pods cannot be listed")
        raise typer.Exit(_print_uninjected(found, output))
    read = source(kubeconfig, context, asked, resource_names_of(gpu_resource))
    show(read, asked, output, watch=watch)


def _print_uninjected(found: list[Uninjected], output: LedgerOutput) -> int:
    """Print the pods that were never injected, and return the exit status."""
    if output is LedgerOutput.JSON:
        say_json(found)
    elif found:
        rows = [(each.namespace, each.pod, each.node or "-", each.why) for each in found]
        say(table([("NAMESPACE", "POD", "NODE", "WHY"), *rows]))
    else:
        say("every pod that uses a GPU was injected")
    return SOME if found else 0
