"""Run with `python -m bench.page`: the page in Chromium, at 1,000 nodes of 8 GPUs, while pods come and go.

What is measured is what the page's own thread does: the CPU of all its tasks for each frame of 16 ms, and the
time from a pod's creation until it is drawn. Needs Chromium and `make browser`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.harness import Bar, Figure, report
from bench.machine import Watch
from bench.processes import CHECKOUT
from testbed import browser

FRAME_MS = 16
SHOWN_MS = 2000
FOLLOW = """() => {
  window.taken = []; window.shown = [];
  const known = new Set();
  new MutationObserver((changes) => {
    const labels = changes.map(({ target }) => target.ariaLabel).join(" ");
    for (const [, at] of labels.matchAll(/probe-(\\d+)/g)) {
      if (!known.has(at)) window.shown.push([Number(at), Date.now() - Number(at)]);
      known.add(at);
    }
  }).observe(document.getElementById("nodes"), { subtree: true, attributeFilter: ["aria-label"] });
  const next = (before) => requestAnimationFrame((now) => { window.taken.push(now - before); next(now); });
  requestAnimationFrame(next);
}"""


def main(
    nodes: Annotated[int, typer.Option(help="Nodes of 8 GPUs.")] = 1000,
    pods_per_second: Annotated[float, typer.Option(help="Pods that end, and as many that begin.")] = 100,
    seconds: Annotated[int, typer.Option(help="Seconds to look.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure frames and delays."""
    if reason := browser.missing():
        raise SystemExit(reason)
    watch = Watch()
    with _server(nodes, pods_per_second) as port, browser.chromium() as chromium:
        figures = _look(chromium, f"http://localhost:{port}/", nodes, seconds)
    report("page", figures, watch, json_file, nodes=nodes, pods_per_second=pods_per_second)


def _look(chromium: Any, address: str, nodes: int, seconds: int) -> list[Figure]:
    tab = chromium.new_page(viewport={"width": 1600, "height": 1000})
    start = time.monotonic()
    tab.goto(address)
    tab.wait_for_function(
        "(nodes) => document.querySelectorAll('.row').length === nodes", arg=nodes, timeout=120_000
    )
    first = 1000 * (time.monotonic() - start)
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    tab.evaluate(FOLLOW)
    # Pods of before are drawn in the first second.
    tab.wait_for_timeout(2000)
    before, frames = _metrics(session), tab.evaluate("taken.length")
    since = time.time() * 1000
    tab.wait_for_timeout(1000 * seconds)
    after, taken = _metrics(session), tab.evaluate("taken")[frames:]
    shown = [delay for at, delay in tab.evaluate("shown") if at >= since]
    spent = {
        name: 1000 * (after[name] - before[name]) / len(taken) for name in ("TaskDuration", "ScriptDuration")
    }
    taken.sort()
    return [
        Figure(
            "all tasks of the page, for each frame", "ms", [spent["TaskDuration"]], bar=Bar("<=", FRAME_MS)
        ),
        Figure("its script, for each frame", "ms", [spent["ScriptDuration"]]),
        Figure("between two frames, p50", "ms", [taken[len(taken) // 2]]),
        Figure("between two frames, p95", "ms", [taken[len(taken) * 95 // 100]]),
        Figure("from a pod's creation to its box", "ms", shown),
        Figure("the latest of them", "ms", [max(shown)], bar=Bar("<=", SHOWN_MS)),
        Figure("from the address to all nodes", "ms", [first]),
    ]


def _metrics(session: Any) -> dict[str, float]:
    found = session.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in found}


@contextmanager
def _server(nodes: int, pods_per_second: float) -> Iterator[int]:
    command = [sys.executable, "-m", "bench.page_server", str(nodes), str(pods_per_second)]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    typer.run(main)
