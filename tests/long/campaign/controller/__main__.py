"""Run with `python -m tests.long.campaign.controller --decisions N [--seed S]`. Exits with 1 on a finding."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.long.campaign.controller.campaign import run


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # What is wrong with objects is logged, line by line.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    start = time.process_time()
    tally, findings = run(given.decisions, given.seed)
    seconds = time.process_time() - start
    lines = [
        f"{tally.decisions} decisions in {seconds:.0f} s of CPU, {tally.decisions / seconds:.0f} a second",
        f"the largest ledger of an empty cluster: {tally.largest} bytes",
        *(f"  {name:28} {count}" for name, count in tally.counts.most_common()),
        *(f"FOUND {text}" for text in findings),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
