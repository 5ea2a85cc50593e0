"""Plans for MIG cards: for odd nodes and requests, and in a cluster that does what they say."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from controller.geometry.infeasible import never_fits
from controller.geometry.model import Change, MigNode, MigRequest, Steps
from controller.geometry.planner import MAX_STEPS, plan
from modes.mig_geometry import geometries
from modes.mig_profiles import CARDS
from tests.controller.geometry.cluster import MigCluster
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
    largest = {node.card: len(node.geometries) for node in nodes}
    for each in requests[:5]:
        text = never_fits(each.wants, largest)
        assert text is None or (text.isprintable() and len(text) < 1000), text
    turns = {name: float(dice.randrange(5)) for name in NAMESPACES if dice.random() < 0.5}
    work = Steps(MAX_STEPS)
    made = plan(nodes, requests, turns, work)
    assert work.left > -MAX_STEPS, "a plan that does not end"
    assert plan(reversed(nodes), reversed(requests), turns) == made, "the plan depends on the order"
    assert len({(change.node, change.card) for change in made.changes}) == len(made.changes), "a card twice"
    for change in made.changes:
        _check_change(change, {node.name: node for node in nodes}, requests)
    return len(requests)


def _check_change(change: Change, nodes: dict[str, MigNode], requests: list[MigRequest]) -> None:
    node = nodes[change.node]
    assert not node.is_changing, "a node that is changing"
    assert change.card in node.idle, "a card that may be in use"
    assert change.geometry in geometries(node.card), "no geometry of that card"
    assert node.paused_until is None or not node.geometries[change.card], "a divided card of a paused node"
    request = next(each for each in requests if each.key == change.request)
    assert request.nodes is None or change.node in request.nodes, "a node that the pod may not run on"
    assert request.cpu_milli <= node.cpu_free, "a node without CPU for the pod"


def _node(name: str, dice: random.Random) -> MigNode:
    card = dice.choice(CARDS)
    known = sorted(geometries(card))
    cards = tuple(dice.choice(known) for _ in range(dice.choice((1, 1, 2, 8))))
    offered = Counter(name for each in cards for name in each)
    held = {name: dice.randint(0, count) for name, count in offered.items() if dice.random() < 0.5}
    if dice.random() < 0.1:
        held["9g.999gb"] = 3
    paused = 10.0 if dice.random() < 0.2 else None
    cpu = dice.choice((0, 4000, 64000))
    return MigNode(name, card, cards, held, dice.random() < 0.2, paused, cpu)


def _request(number: int, dice: random.Random) -> MigRequest:
    profiles = [profile.name for card in CARDS for profile in card.profiles] + ["", "9g.999gb", "1g.5gb"]
    wants = {dice.choice(profiles): dice.choice(COUNTS) for _ in range(dice.choice((1, 1, 2)))}
    nodes = None if dice.random() < 0.6 else frozenset({f"n{dice.randrange(6)}"})
    since = dice.choice(["", "x", f"2026-01-01T00:00:{dice.randrange(60):02}Z"])
    key = dice.choice(NAMESPACES), f"p{number}"
    return MigRequest(key, tuple(sorted(wants.items())), since, nodes, dice.choice((0, 0, 500, 10**9)))


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
