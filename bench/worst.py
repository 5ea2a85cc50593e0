"""Run with `python -m bench.worst`: CPU of a review of 3 MiB, for every list, map and text of a pod.

Each pod (bench/oversized.py) is reviewed three times by a reviewer that never met it: by the rules, by the
rules and to learn its form, and from the patch cache if it has one. The dearest of the three counts.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.harness import Bar, Figure, report
from bench.instant_placer import ReadyPlacer
from bench.machine import MEASURED_CORE, Watch, pin
from bench.oversized import POLICIES, SIZE, Shape, shapes
from policies.loading.loader import load_policies
from policies.loading.policy_set import PolicySet
from service.log import configure_logging
from service.metrics import new_registry
from webhook.decision_log import DecisionLog
from webhook.metrics import WebhookMetrics
from webhook.patch_cache.cache import PatchCache
from webhook.review import Reviewer
from webhook.rules import Rules

REVIEWS = 3
TIMES_JSON, MORE_MS = 3, 20
"""A review may cost so many times what json.loads of its bytes does, and so many milliseconds more."""
BAR = Bar("<=", 1)


def main(
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
) -> None:
    """Measure a review of 3 MiB of each kind against what it may cost."""
    pin(MEASURED_CORE)
    watch = Watch()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    configure_logging()
    groups: dict[str, list[Shape]] = {}
    for shape in shapes():
        groups.setdefault(shape.group, []).append(shape)
    policies, log = load_policies(POLICIES), DecisionLog(WebhookMetrics(new_registry()))
    gc.collect()
    gc.freeze()
    figures = [_worst(name, members, policies, log, rounds) for name, members in groups.items()]
    report("worst", figures, watch, json_file)


def _worst(group: str, members: list[Shape], policies: PolicySet, log: DecisionLog, rounds: int) -> Figure:
    """The member of a group that comes nearest to what it may cost, in each round."""
    dearest = [
        max((_milliseconds(shape, policies, log) for shape in members), key=lambda found: found[0] / found[1])
        for _ in range(rounds)
    ]
    return Figure(
        f"worst of {len(members)} pods of 3 MiB: {group}",
        "ms CPU",
        [cost for cost, _, _ in dearest],
        f"{TIMES_JSON} x json.loads + {MORE_MS} ms",
        [allowed for _, allowed, _ in dearest],
        BAR,
        max(dearest, key=lambda found: found[0] / found[1])[2],
    )


def _milliseconds(shape: Shape, policies: PolicySet, log: DecisionLog) -> tuple[float, float, str]:
    """What the dearest review of a pod costs, what it may cost, and the pod's name."""
    body = shape.make(SIZE)
    reviewer = Reviewer(lambda: policies, PatchCache(Rules()), ReadyPlacer(), log)
    costs = []
    for _ in range(REVIEWS):
        start = time.thread_time_ns()
        reviewer.answer(body)
        costs.append(time.thread_time_ns() - start)
    start = time.thread_time_ns()
    # Too deep, or a number of too many digits.
    with contextlib.suppress(RecursionError, ValueError):
        json.loads(body)
    allowed = TIMES_JSON * (time.thread_time_ns() - start) / 1e6 + MORE_MS
    return max(costs) / 1e6, allowed, shape.name


if __name__ == "__main__":
    typer.run(main)
