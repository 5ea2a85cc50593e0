"""Take in what benches measured, and write it into the pages: `python -m bench.documentation [FOLDER]`.

FOLDER holds the files that benches wrote with `--json`. Their figures, without the single rounds, go into
bench/results.json, the one summary; a bench that left no file there keeps its older figures. The words of
docs/internals/performance.md and bench/README.md are written by hand. What stands between
`<!-- bench: NAME -->` and `<!-- end -->` is generated from the summary. NAME `bars` stands for every figure
that has a bar.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import COLUMNS, cells
from bench.plot import Curves, svg

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(r"<!-- bench: (?P<name>[a-z-]+) -->\n.*?<!-- end -->", re.DOTALL)
_BARS = "bars"
_EXTRA = {"load": "load by", "kubernetes": "Kubernetes", "trace": "trace"}
_SERIES = {"containers": "containers in a pod", "kilobytes": "kB of a body"}

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Documentation:
    """Pages with their plots, and the summary of results that they show."""

    pages: Sequence[Path]
    plots_folder: Path
    summary: Path

    def take_in(self, folder: Path) -> None:
        """Replace the figures of each bench that left a file in a folder."""
        found = self._results()
        for file in sorted(folder.glob("*.json")):
            found[file.stem] = summarized(json.loads(file.read_text()))
        self.summary.write_text(summary_text(found))

    def write(self) -> None:
        """Write the pages and their plots again.

        Raises:
            KeyError: a page names a bench that the summary lacks.
        """
        for page in self.pages:
            page.write_text(self.text(page))
        for name, drawing in self.plots().items():
            (self.plots_folder / name).write_text(drawing)

    def text(self, page: Path) -> str:
        """Return a page with its blocks recreated."""
        found = self._results()

        def block(match: re.Match[str]) -> str:
            name = match["name"]
            lines = _all_bars(found) if name == _BARS else _section(found[name])
            return "\n".join([f"<!-- bench: {name} -->", *lines, "<!-- end -->"])

        return _BLOCK.sub(block, page.read_text())

    def plots(self) -> dict[str, str]:
        """Return SVGs by file name: throughput against concurrency, latency against rate."""
        found = self._results()["webhook"]
        by_rate = found["rates"]
        latencies = {
            name: {rate: values[name] for rate, values in by_rate.items()}
            for name in next(iter(by_rate.values()))
        }
        throughput: Curves = found["concurrency"]
        return {
            "throughput.svg": svg(
                throughput,
                "Reviews per second by connections, one core",
                "connections that keep one review each in flight",
            ),
            "latency.svg": svg(latencies, "Latency in ms by rate, open loop", "reviews per second"),
        }

    def _results(self) -> dict[str, Result]:
        results: dict[str, Result] = json.loads(self.summary.read_text())
        return results


def summarized(result: Result) -> Result:
    """Return what a bench wrote without its single rounds and its own name."""
    figures = [
        {
            key: {name: each for name, each in value.items() if name != "each"}
            if isinstance(value, dict)
            else value
            for key, value in figure.items()
        }
        for figure in result["figures"]
    ]
    return {**{key: value for key, value in result.items() if key != "bench"}, "figures": figures}


def summary_text(results: Mapping[str, Result]) -> str:
    """Return the summary as JSON, a line for each figure, so that a change reads well."""
    return "{\n" + ",\n".join(_bench_text(name, result) for name, result in results.items()) + "\n}\n"


def _bench_text(name: str, result: Result) -> str:
    others = sorted(result.keys() - {"figures"})
    rest = [f"  {json.dumps(key)}: {json.dumps(result[key])}," for key in others]
    figures = ",\n".join(f"   {json.dumps(figure)}" for figure in result["figures"])
    return "\n".join([f" {json.dumps(name)}: {{", *rest, f'  "figures": [\n{figures}\n  ]', " }"])


def _section(found: Result) -> Iterator[str]:
    """Conditions, table, notes and series of one bench."""
    yield _conditions(found)
    yield ""
    yield from _table(COLUMNS, map(cells, found["figures"]))
    for figure in found["figures"]:
        if figure["note"]:
            yield f"\n{figure['figure']}: {figure['note']}."
    for key, title in _SERIES.items():
        if key in found:
            yield ""
            yield from _table([title, *found[key]], [["us CPU", *map(str, found[key].values())]])


def _all_bars(found: Mapping[str, Result]) -> Iterator[str]:
    """One table of every figure that has a bar, missed ones too."""
    rows = []
    for name, result in found.items():
        for figure in result["figures"]:
            if figure["bar"]:
                what, value, _, ratio, bar, met, _ = cells(figure)
                rows.append([name, what, ratio or value, bar, met])
    return _table(["bench", "figure", "ratio or value (range)", "bar", "met"], rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join('**no**' if cell == 'NO' else cell for cell in row)} |"


def _conditions(found: Result) -> str:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    extra = "".join(f"; {word} {found[key]}" for key, word in _EXTRA.items() if key in found)
    return (
        f"Measured {machine['date']} on {machine['cores']} cores of {machine['processor']}, Python"
        f" {machine['python']}, commit {machine['commit']}, {versions}{extra}. Others kept"
        f" {machine['foreign_load']:.2f} cores busy meanwhile."
    )


def main(folders: Sequence[str]) -> None:
    """Take in the folder that is given, if any, and write the pages."""
    documentation = Documentation(
        [ROOT / "docs" / "internals" / "performance.md", ROOT / "bench" / "README.md"],
        ROOT / "docs" / "images",
        ROOT / "bench" / "results.json",
    )
    for folder in folders:
        documentation.take_in(Path(folder))
    documentation.write()


if __name__ == "__main__":
    main(sys.argv[1:])
