"""Search for dear reviews: `python -m tests.long.campaign.search --minutes M [--seed S] [--save FOLDER]`.

No review of 3 MiB may hold the webhook's event loop for longer than 100 ms of CPU, on a machine on which
json.loads of a fixed body takes `REFERENCE_MS`; a slower one has more. Exits with 1 on a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from bench.oversized import SIZE, shapes
from tests.long.campaign.search.meter import CpuMeter
from tests.long.campaign.search.search import Finding, Scored, Search
from tests.long.campaign.search.settings import bases, settings

BOUND_MS = 100
REFERENCE_MS = 45.0
"""Milliseconds of CPU of json.loads of the reference, on the machine that the bound is meant for."""
REFERENCE = "object.spec.containers"
SHOWN = 12


def main() -> int:
    """Run a search from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="of CPU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="folder for findings and for the dearest reviews")
    parser.add_argument("--most-findings", type=int, default=10, help="end after so many places of the code")
    given = parser.parse_args()
    reference = reference_ms()
    bound = BOUND_MS * max(1.0, reference / REFERENCE_MS)
    start = _cpu_seconds()
    with CpuMeter() as meter:
        search = Search(settings(), bases(), meter, bound, given.seed)
        while _cpu_seconds() - start < given.minutes * 60 and len(search.findings) < given.most_findings:
            search.step()
        seconds = _cpu_seconds() - start
        # What is reported as dearest is measured once more.
        sys.stdout.write("\n".join(_report(search, seconds, reference, bound)) + "\n")
        if given.save is not None:
            _save(search, given.save)
    return 1 if search.findings else 0


def _cpu_seconds() -> float:
    """CPU of this process and of its workers."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def reference_ms() -> float:
    """Milliseconds of CPU of json.loads of a fixed body of 3 MiB; the least of five."""
    body = next(each for each in shapes() if each.name.startswith(REFERENCE)).make(SIZE)
    found = []
    for _ in range(5):
        start = time.thread_time_ns()
        json.loads(body)
        found.append(time.thread_time_ns() - start)
    return min(found) / 1e6


def _report(search: Search, seconds: float, reference: float, bound: float) -> list[str]:
    tally = search.tally
    measured = ", ".join(f"{count} of {size // 1024} KiB" for size, count in sorted(tally.measured.items()))
    return [
        f"{tally.steps} reviews in {seconds:.0f} s of CPU: {tally.explored} explored, measured {measured}",
        f"json.loads of the reference {reference:.1f} ms: a review may hold the loop for {bound:.0f} ms",
        *(f"  {outcome:28} {count}" for outcome, count in tally.outcomes.most_common()),
        "the dearest:",
        *(line for each in search.dearest(SHOWN) for line in _lines(each, reference)),
        *(line for each in search.findings.values() for line in _found(each, reference)),
    ]


def _lines(scored: Scored, reference: float) -> list[str]:
    cost = scored.cost
    each = 1e3 * cost.longest / max(1, scored.bytes / 1024)
    head = (
        f"{cost.longest:8.1f} ms, {cost.longest / reference:.2f} x the reference, {scored.bytes} bytes,"
        f" {each:.1f} us a KiB, policy {scored.setting}, {cost.outcome}"
    )
    return [head, *(f"             {line}" for line in scored.genome.describe())]


def _found(finding: Finding, reference: float) -> list[str]:
    head, *more = _lines(finding.scored, reference)
    return [f"FOUND at review {finding.step}, in {finding.where}:", head, *more]


def _save(search: Search, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(search.findings.values()):
        (folder / f"finding-{number}.json").write_bytes(finding.body)
    for number, scored in enumerate(search.dearest(SHOWN)):
        (folder / f"dear-{number}.json").write_bytes(scored.genome.body() or b"")


if __name__ == "__main__":
    sys.exit(main())
