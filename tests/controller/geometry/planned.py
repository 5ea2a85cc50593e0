"""Nodes and requests as the planner sees them."""

from controller.geometry.model import MigNode, MigRequest
from modes.mig_profiles import A100_40GB


def node(name="a", *cards, card=A100_40GB, held=None, is_changing=False):
    return MigNode(name, card, cards or ((),), held or {}, is_changing)


def request(name, profile="3g.20gb", count=1, since="", nodes=None):
    return MigRequest(("team", name), ((profile, count),), since, nodes)
