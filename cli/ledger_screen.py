"""The ledger on a screen, in a pipe and as JSON: once, or until Ctrl-C."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.text import Text

from cli.card_table import card_lines, card_lines_by_node, card_total
from cli.cluster import ask
from cli.ledger_filter import Filter
from cli.ledger_table import lines, lines_by_node, total
from cli.ledger_watch import cut, news, page
from cli.options import LedgerOutput
from cli.printing import facts, say, say_json
from cli.terminal import Terminal
from ledger.card_view import CardView
from ledger.view import LedgerView

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer

POLL_SECONDS = 1.0
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


def show(read: Read, asked: Filter, output: LedgerOutput, *, watch: bool) -> None:
    """Print what a filter leaves of a ledger, once or until Ctrl-C."""
    console = Terminal(soft_wrap=True)
    try:
        if not watch:
            _print(console, _asked(asked, read()), output)
        elif console.is_terminal and output is not LedgerOutput.JSON:
            _watch(console, lambda: _lines(_asked(asked, read()), wide=output is LedgerOutput.WIDE))
        else:
            _follow(lambda: _asked(asked, read()), output)
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


def source(kubeconfig: Path | None, context: str | None) -> Read:
    """Return what reads the ledger of a cluster."""
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
