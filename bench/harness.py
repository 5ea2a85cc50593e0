"""Interleaved rounds, figures with their references and bars, and how they are shown and stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from rich.console import Console
from rich.table import Table

from bench.machine import Conditions, Watch

T = TypeVar("T")

COLUMNS = ("figure", "value", "reference", "ratio (range)", "bar", "met", "rounds")


@dataclass(frozen=True, slots=True)
class Bar:
    """What a ratio (or, without a reference, a value) must reach."""

    comparison: Literal["<=", ">="]
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a median passes."""
        return value <= self.limit if self.comparison == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.comparison} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing, round by round, next to its reference in the same rounds."""

    name: str
    unit: str
    values: Sequence[float]
    reference_name: str = ""
    references: Sequence[float] = ()
    bar: Bar | None = None
    note: str = ""
    """What a reader must know to read the number rightly."""

    @property
    def ratios(self) -> list[float]:
        """Value over reference, round by round; empty without a reference."""
        return [
            value / base for value, base in zip(self.values, self.references, strict=bool(self.references))
        ]

    @property
    def is_met(self) -> bool | None:
        """Whether the median passes the bar; None without a bar."""
        return self.bar.is_met(median(self.ratios or self.values)) if self.bar is not None else None

    def as_json(self) -> dict[str, Any]:
        """Everything a table shows, and each round."""
        return {
            "figure": self.name,
            "unit": self.unit,
            "value": _spread(self.values),
            "reference": {"name": self.reference_name, **_spread(self.references)}
            if self.references
            else None,
            "ratio": _spread(self.ratios) if self.references else None,
            "bar": str(self.bar) if self.bar is not None else None,
            "met": self.is_met,
            "rounds": len(self.values),
            "note": self.note,
        }


def interleave(subjects: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Measure every subject once a round; each round goes through them in the other direction."""
    measured: dict[str, list[T]] = {name: [] for name in subjects}
    for number in range(rounds):
        order = list(subjects)
        for name in order if number % 2 == 0 else reversed(order):
            measured[name].append(subjects[name]())
    return measured


def report(bench: str, figures: Sequence[Figure], watch: Watch, json_file: Path | None, **extra: Any) -> None:
    """Print the table and, where asked, write the JSON."""
    conditions = watch.stop()
    _print(bench, figures, conditions)
    if json_file is not None:
        content = {
            "bench": bench,
            "machine": asdict(conditions),
            "figures": [figure.as_json() for figure in figures],
            **extra,
        }
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(content, indent=1) + "\n")


def _print(bench: str, figures: Sequence[Figure], conditions: Conditions) -> None:
    table = Table(title=f"bench-{bench}")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in figures:
        table.add_row(*cells(figure.as_json()))
    console = Console(width=160)
    console.print(table)
    for line in conditions.lines():
        console.print(line, highlight=False)
    for figure in figures:
        if figure.note:
            console.print(f"{figure.name}: {figure.note}", highlight=False)


def cells(figure: Mapping[str, Any]) -> list[str]:
    """What a table shows of a figure, given as `Figure.as_json` makes it, by COLUMNS."""
    value, reference, ratio = figure["value"], figure["reference"], figure["ratio"]
    shown = f"{short(value['median'])} {figure['unit']}".strip()
    return [
        figure["figure"],
        shown if ratio else shown + _range(value, short),
        f"{reference['name']}: {short(reference['median'])}" if reference else "",
        f"{ratio['median']:.3f}" + _range(ratio, "{:.3f}".format) if ratio else "",
        figure["bar"] or "",
        {None: "", True: "yes", False: "NO"}[figure["met"]],
        str(figure["rounds"]),
    ]


def _range(spread: Mapping[str, Any], shown: Callable[[float], str]) -> str:
    low, high = shown(spread["low"]), shown(spread["high"])
    return f" ({low} to {high})" if low != high else ""


def _spread(values: Sequence[float]) -> dict[str, Any]:
    rounded = [float(f"{value:.5g}") for value in values]
    return {
        "median": float(f"{median(values):.5g}"),
        "low": min(rounded),
        "high": max(rounded),
        "each": rounded,
    }


def short(value: float) -> str:
    """Write a number with the digits that a reader can take in."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"  # noqa: PLR2004 from here on without decimals
