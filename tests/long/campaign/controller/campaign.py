"""The campaign: epochs of one cluster each, and between them plans for MIG cards."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections import Counter
from dataclasses import dataclass, field

from tests.long.campaign.controller.epoch import Epoch
from tests.long.campaign.controller.mig import check_cluster, check_plan
from tests.long.campaign.controller.page import Pages

STEPS = 600
"""Of an epoch."""
CHECKED_EVERY = 50
PLANS, PAGES = 20, 15
"""In each epoch."""


@dataclass
class Tally:
    """What a campaign did."""

    decisions: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    largest: int = 0
    """Bytes of a ledger whose cluster is gone."""


def run(decisions: int, seed: int, most_findings: int = 20) -> tuple[Tally, list[str]]:
    """Make so many decisions; give what was counted and what was found."""
    tally, findings = Tally(), list[str]()
    loop = asyncio.new_event_loop()
    number = 0
    while tally.decisions < decisions and len(findings) < most_findings:
        dice = random.Random(f"{seed}-{number}")  # noqa: S311 repeatable, no secret
        epoch = Epoch(dice, loop, tally.counts)
        try:
            _run_epoch(epoch, dice, loop, tally)
        except Exception as error:  # noqa: BLE001 whatever breaks is a finding
            place = "; ".join(
                f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)[-6:]
            )
            text = f"{type(error).__name__}: {str(error)[:500]} at {place}"
            findings.append(f"epoch {number}: {text}\n  after {str(epoch.last)[:1000]}")
        number += 1
    loop.close()
    return tally, findings


def _run_epoch(epoch: Epoch, dice: random.Random, loop: asyncio.AbstractEventLoop, tally: Tally) -> None:
    pages = Pages(epoch.store)
    for step in range(STEPS):
        tally.decisions += epoch.step()
        if step % CHECKED_EVERY == CHECKED_EVERY - 1:
            epoch.check()
        if step % (STEPS // PAGES) == 0:
            tally.decisions += loop.run_until_complete(pages.check(dice))
            tally.counts["page"] += 1
    pages.stop()
    tally.largest = max(tally.largest, epoch.end())
    for _ in range(PLANS):
        tally.decisions += check_plan(dice)
        tally.counts["plan"] += 1
    if dice.random() < 0.2:
        tally.decisions += check_cluster(dice, loop)
        tally.counts["cluster of MIG cards"] += 1
