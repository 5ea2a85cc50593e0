"""Nodes and requests as the planner sees them, and the changes of cards that it decides on."""

import hashlib
from typing import NamedTuple

import msgspec

from controller.geometry.model import MigNode, MigRequest
from controller.geometry.planner import Planner
from controller.watch.mig_facts import MigPod
from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from modes.facts import PodFact
from modes.mig_profiles import A100_40GB

ANYWHERE = Constraints()


class Change(NamedTuple):
    node: str
    card: int
    geometry: tuple
    pods: frozenset


def node(name="a", *cards, card=A100_40GB, **more):
    return MigNode(name, card, cards or ((),), **more)


def request_of(name, wants, since="", namespace="team", constraints=ANYWHERE, **fact):
    digest = hashlib.sha256(msgspec.json.encode(constraints)).digest()
    mig = MigPod(name, since, wants, waits=True, constraints=constraints, digest=digest)
    return MigRequest(PodFact(namespace=namespace, name=name, **fact), mig)


def request(name, profile="3g.20gb", count=1, since="", **more):
    return request_of(name, ((profile, count),), since, **more)


def only_on(*nodes):
    """Constraints of a pod that runs on these nodes only."""
    return Constraints(
        required_terms=(NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", nodes),)),)
    )


def changes_of(nodes, found):
    before = {each.name: each.division for each in nodes}
    return [
        Change(name, card, names, new.pods)
        for name, new in found.divisions.items()
        for card, names in enumerate(new.division)
        if names != before[name][card]
    ]


def plan(nodes, requests, planner=None, now=0.0):
    nodes = list(nodes)
    return changes_of(nodes, (planner or Planner()).plan(nodes, list(requests), now))
