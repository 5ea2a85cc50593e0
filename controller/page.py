"""The read-only page: nodes, their GPUs slice by slice, and who waits. It shows all tenants."""

from __future__ import annotations

from html import escape

from ledger.view import GpuView, LedgerView, NodeView

REFRESH_SECONDS = 2
_STYLE = """
body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:left;vertical-align:top}
.gpu{display:inline-block;margin:0 .8em .3em 0;white-space:nowrap}
.gpu i{display:inline-block;width:.7em;height:1.1em;margin-right:1px;background:#ddd}
.gpu i.holder{background:#2a7}.gpu i.promised{background:#8c5}.gpu i.reservation{background:#dc5}
.gpu i.over{background:#d33}.off{color:#999}
"""


def render(view: LedgerView, leader: str | None) -> str:
    """Write the whole page; names come from users and are escaped."""
    rows = "".join(_node(node) for node in view.nodes)
    waiting = "".join(
        f"<tr><td>{escape(w.namespace)}/{escape(w.name)}<td>{w.kind}<td>{w.slices}"
        f"<td>{escape(', '.join(map(str, w.indices)) or 'any')}"
        for w in view.backlog
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta http-equiv=refresh content={REFRESH_SECONDS}>"
        f"<title>GPU fractions</title><style>{_STYLE}</style><h1>GPU fractions</h1>"
        f"<p>Leader: {escape(leader or 'none')}. One bar is one slice."
        f"<table><tr><th>Node<th>GPU<th>MiB<th>Slices{rows}</table>"
        f"<h2>Waiting</h2><table><tr><th>Pod<th>Kind<th>Slices<th>GPU{waiting}</table></html>"
    )


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
