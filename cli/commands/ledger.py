"""fraction-injector ledger: shows which pods hold which slices."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.live import Live
from rich.text import Text

from cli.card_table import card_lines, card_lines_by_node, card_total
from cli.cluster import ask
from cli.ledger_filter import Filter
from cli.ledger_table import lines, lines_by_node, total
from cli.ledger_watch import cut, news, page
from cli.options import (
    ContextOption,
    GpuResourceOption,
    KubeconfigOption,
    UseConfigMapOption,
    fail,
    resource_names_of,
)
from cli.printing import facts, say, say_json, table
from cli.share_use_table import use_as_json, use_lines
from cli.suggestion_table import print_suggestions
from cli.terminal import Terminal
from ledger.card_view import CardView
from ledger.view import LedgerView
from modes.resource_names import ONE_GPU_RESOURCE

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer
    from describe.uninjected import Uninjected
    from modes.resource_names import ResourceNames

POLL_SECONDS = 1.0
SOME = 1
"""Exit status if pods were not injected."""
LINES_BESIDE = 2
"""The total, and the prompt."""
BY_GPU = "each GPU: --node NAME, --output wide, or --watch"
CARDS_SECONDS = 10.0
"""A claim has kilobytes, and there is one for each pod: with --watch they are listed less often."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the command shows."""

    view: LedgerView
    cards: Sequence[CardView] = ()
    """Cards that DRA drivers offer."""


Read = Callable[[], Shown]


class LedgerOutput(StrEnum):
    """The output format of the ledger."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


WatchOption = Annotated[
    bool, typer.Option("--watch", help="Update every second, until Ctrl-C; in a pipe, print only changes.")
]
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
    queue: Annotated[
        str | None, typer.Option(help="Only GPUs of which pods of this ClearML queue hold a share.")
    ] = None,
    free: FreeOption = None,
    use: Annotated[
        bool,
        typer.Option(
            "--use", help="One line for each share: what its pod uses of it, as the node's agent measures it."
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
    use_config_map: UseConfigMapOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show nodes, their GPUs slice by slice, and the pods that hold them, from GpuLedgers.

    Of cards that a DRA driver offers it shows the MiB that claims hold. If no GpuLedger has them, you need
    the right to list ResourceSlices and ResourceClaims. A ledger that is longer than the screen is shown by
    node. With --uninjected the exit status is 1 if there are such pods. --suggest compares the controller's
    history of at most 30 days; peaks between two measurements, every 15 s, are not seen.
    """
    asked = Filter(node, namespace, queue, free)
    if use or uninjected or suggest:
        if watch:
            fail("--use, --uninjected and --suggest read once: leave out --watch")
        if use + uninjected + suggest > 1:
            fail("--use, --uninjected and --suggest print other things: choose one")
        if use:
            _print_uses(asked, output, kubeconfig, context)
            return
        if asked != Filter(namespace=namespace):
            fail("--uninjected and --suggest go with --namespace: leave out --node, --queue and --free")
        if suggest:
            print_suggestions(
                namespace, use_config_map, kubeconfig, context, as_json=output is LedgerOutput.JSON
            )
            return
        question = partial(_uninjected, names=resource_names_of(gpu_resource), namespace=namespace)
        raise typer.Exit(
            _print_uninjected(ask(kubeconfig, context, question, "pods cannot be listed"), output)
        )
    show(_source(kubeconfig, context), asked, output, watch=watch)


def show(source: Read, asked: Filter, output: LedgerOutput, *, watch: bool) -> None:
    """Print what a filter leaves of a ledger, once or until Ctrl-C."""
    console = Terminal(soft_wrap=True)
    try:
        if not watch:
            _print(console, _asked(asked, source()), output)
        elif console.is_terminal and output is not LedgerOutput.JSON:
            _watch(console, lambda: _lines(_asked(asked, source()), wide=output is LedgerOutput.WIDE))
        else:
            _follow(lambda: _asked(asked, source()), output)
    except KeyboardInterrupt:
        return


def _asked(asked: Filter, shown: Shown) -> Shown:
    return Shown(asked.apply(shown.view), asked.cards(shown.cards))


def _lines(shown: Shown, *, wide: bool) -> list[Text]:
    """Return the lines of nodes with slices, then those of cards; of one of them if the other is empty."""
    cards = card_lines(shown.cards, wide=wide)
    has_slices = shown.view.nodes or shown.view.backlog or not cards
    return [*(lines(shown.view, wide=wide) if has_slices else []), *cards]


def _print(console: Terminal, shown: Shown, output: LedgerOutput) -> None:
    if output is LedgerOutput.JSON:
        say_json(_items(shown))
        return
    view, cards = shown.view, shown.cards
    drawn = _lines(shown, wide=output is LedgerOutput.WIDE)
    on_screen = console.is_terminal and output is LedgerOutput.TEXT
    if on_screen and len(drawn) + LINES_BESIDE > console.height:
        by_node = lines_by_node(view) if view.nodes or view.backlog else []
        drawn = [*by_node, *card_lines_by_node(cards), Text(BY_GPU, "dim")]
    drawn += [total(view)] if view.nodes else []
    drawn += [card_total(cards)] if cards else []
    for line in drawn:
        console.print(cut(line, console.width) if on_screen else line)


def _print_uses(asked: Filter, output: LedgerOutput, kubeconfig: Path | None, context: str | None) -> None:
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from describe.share_uses import held_shares, read_uses  # noqa: PLC0415

    view, uses = ask(kubeconfig, context, read_uses, "no GpuLedgers and GpuNodes")
    shares = held_shares(asked.apply(view), uses)
    if output is LedgerOutput.JSON:
        say_json([use_as_json(each) for each in shares])
    else:
        say(use_lines(shares, datetime.now(UTC)))


async def _uninjected(api: ApiServer, names: ResourceNames, namespace: str | None) -> list[Uninjected]:
    from describe.uninjected import list_uninjected  # noqa: PLC0415 as above

    try:
        return await list_uninjected(api, names=names, namespace=namespace)
    except msgspec.MsgspecError as error:
        fail(f"pods cannot be read: {error}")


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


def _watch(console: Terminal, draw: Callable[[], list[Text]]) -> None:
    """Show a page that fits the current size of the screen."""
    start = time.monotonic()
    with Live(console=console, auto_refresh=False, screen=False) as live:
        while True:
            width, height = console.size
            live.update(page(draw(), time.monotonic() - start, width, height), refresh=True)
            time.sleep(POLL_SECONDS)


def _follow(read: Read, output: LedgerOutput) -> None:
    """Print the ledger once, then its changes; as JSON, one list per line."""
    before: list[str] = []
    while True:
        shown = read()
        if output is LedgerOutput.JSON:
            now = [json.dumps(facts(_items(shown)))]
            fresh = now if now != before else []
        else:
            # Without columns: their width depends on other lines, and an unchanged line must stay the same.
            now = [" ".join(line.plain.split()) for line in _lines(shown, wide=True)]
            fresh = news(before, now, datetime.now().astimezone()) if before else now
        if fresh:
            say("\n".join(fresh))
        before = now
        time.sleep(POLL_SECONDS)


def _items(shown: Shown) -> list[dict[str, Any]]:
    """Return nodes, what waits, and cards, as items of one list; `kind` says which."""
    view = shown.view
    nodes = [
        {"kind": "node"}
        | facts(node)
        | {"gpus": [facts(gpu) | {"name": gpu.name, "used": gpu.used, "free": gpu.free} for gpu in node.gpus]}
        for node in view.nodes
    ]
    for node in nodes:
        # Cards are items of their own.
        del node["cards"]
    return [*nodes, *map(facts, view.backlog), *[{"kind": "card"} | facts(card) for card in shown.cards]]


def _shown(view: LedgerView) -> Shown:
    """Separate nodes with slices from cards."""
    cards = [card for node in view.nodes for card in node.cards]
    nodes = tuple([replace(node, cards=()) for node in view.nodes if node.gpus or not node.cards])
    return Shown(replace(view, nodes=nodes), cards)


def _source(kubeconfig: Path | None, context: str | None) -> Read:
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from cluster.listing import list_all  # noqa: PLC0415
    from controller.publish.gpu_ledger import gpu_ledgers, view_of  # noqa: PLC0415

    cards: Sequence[CardView] = ()
    read_at: float | None = None

    async def listed(api: ApiServer) -> Shown:
        nonlocal cards, read_at
        views = map(view_of, await list_all(api, gpu_ledgers()))
        shown = _shown(LedgerView(tuple(view for view in views if view is not None), ()))
        if not shown.cards and (read_at is None or time.monotonic() - read_at >= CARDS_SECONDS):
            cards, read_at = await _cards(api), time.monotonic()
        return shown if shown.cards else replace(shown, cards=cards)

    return lambda: ask(kubeconfig, context, listed, "no GpuLedgers")


async def _cards(api: ApiServer) -> Sequence[CardView]:
    """Return the cards that DRA drivers offer; none, with a line on stderr, if their claims are unknown."""
    from controller.pods.pod_claim import UNANSWERED  # noqa: PLC0415 as above
    from describe.offered_cards import read_cards  # noqa: PLC0415 as above

    try:
        return await read_cards(api)
    except UNANSWERED as error:
        say(f"Not read: cards that DRA drivers offer, and their claims: {error}", err=True)
        return ()
