"""Which node of those with room now is the best for a pod."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.accounts import NodeAccount
from ledger.ask import Ask
from ledger.demand import Worth
from ledger.scoring import base_score, cpu_score


def score(account: NodeAccount, ask: Ask, worth: Worth) -> int | None:
    """How good a node is for a pod now (ledger/scoring.py); None if it has no room."""
    fact = account.fact
    if fact is None or not fact.usable:
        return None
    cpu_free = fact.cpu_milli - account.cpu_taken
    if cpu_free < ask.cpu_milli or fact.memory_bytes - account.memory_taken < ask.memory_bytes:
        return None
    if ask.mode == "pooled":
        free = max(0, fact.pooled - account.taken_pooled)
        base = -free if free >= ask.fraction.slices else None
    else:
        slices = tuple(account.placeable().values())
        free = sum(slices)
        base = base_score(slices, ask.fraction, worth)
    if base is None:
        return None
    return base + cpu_score(free, cpu_free, ask.fraction.slices, ask.cpu_milli, worth)


def best(accounts: Iterable[NodeAccount], ask: Ask, worth: Worth) -> NodeAccount | None:
    """The node with the best score, the first by name of equals; None if none has room."""
    found = [
        (-value, account.name, account)
        for account in accounts
        if (value := score(account, ask, worth)) is not None
    ]
    return min(found)[2] if found else None
