"""The read-only page: nodes, their GPUs slice by slice, and who waits. It shows all tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import escape

from controller.ledger_parts import node_views, waiting_views
from controller.ledger_store import LedgerStore
from ledger.view import GpuView, NodeView, PendingView

REFRESH_SECONDS = 2
_STYLE = """
body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:left;vertical-align:top}
.gpu{display:inline-block;margin:0 .8em .3em 0;white-space:nowrap}
.gpu i{display:inline-block;width:.7em;height:1.1em;margin-right:1px;background:#ddd}
.gpu i.holder{background:#2a7}.gpu i.promised{background:#8c5}.gpu i.reservation{background:#dc5}
.gpu i.over{background:#d33}.off{color:#999}
"""


async def render(state: LedgerStore, leader: str | None) -> AsyncIterator[str]:
    """Write the whole page in parts; names come from users and are escaped."""
    yield (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta http-equiv=refresh content={REFRESH_SECONDS}>"
        f"<title>GPU fractions</title><style>{_STYLE}</style><h1>GPU fractions</h1>"
        f"<p>Leader: {escape(leader or 'none')}. One bar is one slice."
        "<table><tr><th>Node<th>GPU<th>MiB<th>Slices"
    )
    async for nodes in node_views(state):
        yield "".join([_node(node) for node in nodes])
    yield "</table><h2>Waiting</h2><table><tr><th>Pod<th>Kind<th>Slices<th>GPU"
    async for waiting in waiting_views(state):
        yield "".join([_waiting(found) for found in waiting])
    yield "</table></html>"


def _waiting(found: PendingView) -> str:
    indices = ", ".join(map(str, found.indices)) or "any"
    name = f"{escape(found.namespace)}/{escape(found.name)}"
    return f"<tr><td>{name}<td>{found.kind}<td>{found.slices}<td>{indices}"


def _node(node: NodeView) -> str:
    gpus = "".join(_gpu(gpu) for gpu in node.gpus)
    name = escape(node.name) + ("" if node.usable else " (not usable)")
    style = "" if node.usable else " class=off"
    return f"<tr{style}><td>{name}<td>{escape(node.product or '?')}<td>{node.gpu_mib or '?'}<td>{gpus}"


def _gpu(gpu: GpuView) -> str:
    bars = []
    for share in gpu.shares:
        title = escape(f"{share.namespace}/{share.name}: {share.slices}", quote=True)
        bars += [f'<i class={share.kind} title="{title}"></i>'] * share.slices
    free = "<i></i>" * max(0, gpu.free)
    over = f" <b>{gpu.over} over</b>" if gpu.over else ""
    label = "all" if gpu.index is None else str(gpu.index)
    return f"<span class=gpu>{label}{' cordoned' if gpu.cordoned else ''} {''.join(bars)}{free}{over}</span>"
