"""The ledger on a screen, in a pipe and as JSON: once, or until Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.cluster import ask
from cli.ledger_filter import Filter
from cli.ledger_table import cards_of, lines, lines_by_node, totals
from cli.options import LedgerOutput, fail
from cli.printing import facts, say_drawn
from ledger.view import LedgerView

if TYPE_CHECKING:
    from cluster.kube_client import ApiServer
    from modes.resource_names import ResourceNames

POLL_SECONDS = 1.0
CLEAR = "\x1b[H\x1b[2J"
BY_GPU = "each GPU: --node NAME, or --output wide"
Read = Callable[[], LedgerView]


def show(read: Read, asked: Filter, output: LedgerOutput, *, watch: bool) -> None:
    """Print what a filter leaves of a ledger, once, or whenever it changes until Ctrl-C."""
    on_screen = sys.stdout.isatty() and output is not LedgerOutput.JSON
    before = ""
    try:
        while True:
            view = asked.apply(read())
            size = shutil.get_terminal_size() if on_screen else None
            if output is LedgerOutput.JSON:
                text = json.dumps(facts(_items(view)), indent=None if watch else 2)
            else:
                text = "\n".join(_lines(view, size, wide=output is LedgerOutput.WIDE, watch=watch))
            if text != before:
                if watch and on_screen:
                    sys.stdout.write(CLEAR)
                say_drawn(text)
            if not watch:
                return
            before = text
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return


def _lines(view: LedgerView, size: os.terminal_size | None, *, wide: bool, watch: bool) -> list[str]:
    """Return the ledger as lines, by node if the screen is too small for each GPU."""
    if size is None:
        return [*lines(view, wide=wide), *totals(view)]
    drawn = [*lines(view, wide=wide, width=None if wide else size.columns), *totals(view)]
    if len(drawn) >= size.lines and not wide and view.pods is None:
        drawn = [*lines_by_node(view, size.columns), BY_GPU, *totals(view)]
    return drawn[: size.lines - 1] if watch else drawn


def _items(view: LedgerView) -> list[dict[str, Any]]:
    """Return nodes, what waits, and cards, as items of one list; `kind` says which."""
    items = []
    for node in view.nodes:
        if node.gpus or not node.cards:
            item = {"kind": "node"} | facts(node)
            # Cards are items of their own.
            del item["cards"]
            gpus = [facts(gpu) | {"name": gpu.name, "used": gpu.used, "free": gpu.free} for gpu in node.gpus]
            items.append(item | {"gpus": gpus})
    pods = [*view.backlog, *(view.pods or ())]
    return [*items, *map(facts, pods), *[{"kind": "card"} | facts(card) for card in cards_of(view)]]


def source(kubeconfig: Path | None, context: str | None, asked: Filter, names: ResourceNames) -> Read:
    """Return what reads the ledger of a cluster, or the pods of a namespace if GpuLedgers are forbidden."""
    # Here and not above: the other subcommands must start without the Kubernetes client.
    from cluster.kube_client import ApiError  # noqa: PLC0415
    from cluster.listing import list_all  # noqa: PLC0415
    from controller.publish.gpu_ledger import gpu_ledgers, view_of  # noqa: PLC0415
    from describe.pod_shares import list_shares  # noqa: PLC0415

    async def listed(api: ApiServer) -> LedgerView:
        try:
            views = map(view_of, await list_all(api, gpu_ledgers()))
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            if asked.namespace is None or asked != Filter(namespace=asked.namespace):
                fail(f"no GpuLedgers: {error}; only --namespace NAME shows pods without them")
            return LedgerView((), (), await list_shares(api, names, asked.namespace))
        return LedgerView(tuple(view for view in views if view is not None), ())

    return lambda: ask(kubeconfig, context, listed, "no GpuLedgers")
