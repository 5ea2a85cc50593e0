"""Plans for MIG cards: for odd nodes and requests, and in a cluster that does what they say."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from controller.geometry.model import MigNode, MigRequest
from controller.geometry.planner import Planner, plan
from modes.mig_geometry import geometries
from modes.mig_profiles import CARDS
from tests.controller.geometry.cluster import MigCluster
from tests.controller.geometry.planned import ANYWHERE, Change, changes_of, only_on, request_of
from tests.long.campaign.controller.asks import NAMESPACES

TURNS = 60
COUNTS = (1, 1, 1, 2, 7, 10**9)


def check_plan(dice: random.Random) -> int:
    """Plan once; return the decisions made.

    Raises:
        AssertionError: a change that must not be, or more work than a plan may take.
    """
    nodes = [_node(f"n{number}", dice) for number in range(dice.randint(0, 5))]
    requests = [_request(number, dice) for number in range(dice.choice((0, 1, 3, 8, 20, 120)))]
    planner, other = Planner(), Planner()
    for now in range(2):
        made = planner.plan(nodes, requests, float(now))
        assert other.plan(nodes[::-1], requests[::-1], float(now)) == made, "the plan depends on the order"
        for change in changes_of(nodes, made):
            _check_change(change, {node.name: node for node in nodes}, requests)
    assert not plan(nodes, requests, steps=0).divisions
    return len(requests)


def _check_change(change: Change, nodes: dict[str, MigNode], requests: list[MigRequest]) -> None:
    node = nodes[change.node]
    assert not node.is_changing, "a node that is changing"
    assert change.card in node.idle, "a card that may be in use"
    assert change.geometry in geometries(node.card), "no geometry of that card"
    assert node.paused_until is None or not node.division[change.card], "a divided card of a paused node"
    for request in requests:
        if request.mig.uid in change.pods:
            assert request.mig.constraints in (ANYWHERE, only_on(change.node)), (
                "a node that it may not run on"
            )
            assert request.pod.cpu_milli <= node.cpu_free, "a node without CPU for the pod"


def _node(name: str, dice: random.Random) -> MigNode:
    card = dice.choice(CARDS)
    known = sorted(geometries(card))
    cards = tuple(dice.choice(known) for _ in range(dice.choice((1, 1, 2, 8))))
    offered = Counter(name for each in cards for name in each)
    held = {name: dice.randint(0, count) for name, count in offered.items() if dice.random() < 0.5}
    if dice.random() < 0.1:
        held["9g.999gb"] = 3
    paused = "2026-01-01T12:00:00Z" if dice.random() < 0.2 else None
    cpu = dice.choice((0, 4000, 64000))
    return MigNode(name, card, cards, held, dice.random() < 0.2, paused, cpu)


def _request(number: int, dice: random.Random) -> MigRequest:
    profiles = [profile.name for card in CARDS for profile in card.profiles] + ["", "9g.999gb", "1g.5gb"]
    wants = {dice.choice(profiles): dice.choice(COUNTS) for _ in range(dice.choice((1, 1, 2)))}
    constraints = ANYWHERE if dice.random() < 0.6 else only_on(f"n{dice.randrange(6)}")
    since = dice.choice(["", "x", f"2026-01-01T00:00:{dice.randrange(60):02}Z"])
    return request_of(
        f"p{number}",
        tuple(sorted(wants.items())),
        since,
        dice.choice(NAMESPACES),
        constraints,
        cpu_milli=dice.choice((0, 0, 500, 10**9)),
    )


def check_cluster(dice: random.Random, loop: asyncio.AbstractEventLoop) -> int:
    """Let pods come and go, managers fail and controllers crash; return the turns.

    Raises:
        AssertionError: an instance in use went, or cards are not whole in the end.
    """
    cluster = MigCluster(cards=dice.choice([(1,), (2,), (1, 1)]))
    card = CARDS[1]
    profiles = [profile.name for profile in card.profiles] + ["9g.999gb"]
    number = 0
    for _ in range(TURNS):
        if dice.random() < 0.3 and len(cluster.pods) < 12:
            number += 1
            count, namespace = dice.choice((1, 1, 1, 2, 50)), dice.choice(NAMESPACES)
            cluster.add_pod(f"p{number}", dice.choice(profiles), count, namespace)
        if cluster.pods and dice.random() < 0.15:
            del cluster.pods[dice.choice(list(cluster.pods))]
        if dice.random() < 0.05:
            dice.choice(list(cluster.managers.values())).fail_next = 1
        if dice.random() < 0.05:
            cluster.crash_after = dice.randint(1, 3)
        if dice.random() < 0.05:
            cluster.refuse = 1
        loop.run_until_complete(cluster.turn())
        for name, manager in cluster.managers.items():
            assert manager.refusals == 0, f"{name}: an instance in use would have gone"
            for names in manager.cards:
                assert not names or tuple(names) in geometries(card), f"{name}: {names} is no geometry"
    return TURNS
