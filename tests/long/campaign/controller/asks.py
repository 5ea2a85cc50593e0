"""Placement requests as JSON: sound ones, every field with odd values of its own type, and damage."""

from __future__ import annotations

import dataclasses
import random
import types
import typing
from functools import cache
from typing import Any

import msgspec

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement
from ledger.messages import write_request
from ledger.placement_request import Accounting, Assumption, Demands, PlacementRequest, Quota, RequestedShare
from modes.fraction import Fraction
from modes.instance import Instance
from modes.registry import MODES
from tests.ledger.cluster import request_of
from tests.ledger.strategies import KEYS, PRODUCTS, VALUES
from tests.long.campaign import hostile

NAMESPACES = ("red", "blue")
QUOTA = 24
"""Slices of the namespace with a quota."""
QUOTAS = {"red": Quota("namespace", "red", slices=QUOTA)}
NODES = [f"n{number}" for number in range(8)]
COUNTED = [name for name, mode in MODES.items() if not mode.is_claimed]
"""Modes whose shares the ledger counts."""
OWNERS = ["", "", "", "train", "serve", "x" * 16]
NAMES = [
    *NODES,
    *KEYS,
    *PRODUCTS,
    *VALUES,
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.memory",
    "16384",
    "é",
    "x" * 63,
]
FRACTIONS = [
    *(Fraction(slices, 8) for slices in (1, 1, 2, 2, 3, 4, 4, 4, 5, 6, 7, 8, 16, 32)),
    *(Fraction(slices * parts, 8, parts) for slices, parts in ((1, 2), (4, 2), (3, 3))),
    Fraction(1, 2),
    Fraction(6, 8, split=(4, 2)),
    Fraction(2, 8, exact=(1, 5)),
]
A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
INSTANCES = [
    Instance(21020, 1, 9728, (A100,)),
    Instance(41040, 2, 19968, (A100, H100)),
    Instance(61080, 4, 40192, (f"{H100}-MIG-3g.40gb",), is_pool=True),
]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "x"]
NUMBERS = [0, 0, 1, 2, 7, 8, 500, 3000, 64000, 2**31, 2**62, -1]
MOST_TERMS, MOST_VALUES = 100, 100


def ask(dice: random.Random, reservation: str | None) -> PlacementRequest:
    """A request as a webhook may send it: the fields of honest pods, and of some that are not."""
    namespace = dice.choice(NAMESPACES)
    known: dict[str, Any] = {
        "fraction": dice.choice(FRACTIONS),
        "namespace": namespace,
        "reservation": reservation,
        "quotas": (QUOTAS[namespace],) if namespace in QUOTAS else (),
        "owner": dice.choice(OWNERS),
        "place": dice.choice(["pack", "pack", "spread"]),
        "same_model": dice.random() < 0.2,
        "cpu_milli": dice.choice([0, 500, 3000, 9000]),
        "constraints": constraints(dice) if dice.random() < 0.4 else Constraints(),
        "writes_limits": dice.random() < 0.8,
    }
    if dice.random() < 0.25:
        known["mode"] = dice.choice(COUNTED)
    if dice.random() < 0.1:
        known |= {"mode": "per-gpu", "prefer": dice.choice([("mig", "per-gpu"), ("per-gpu", "mig")])}
    if dice.random() < 0.1:
        known["assume"] = Assumption(dice.choice([1, 4, 1000]), dice.choice([16384, 81920]))
    for name, kind in _OTHERS.items():
        if dice.random() < 0.02:
            known[name] = value_of(kind, dice)
    return request_of(**known)


def raw(request: PlacementRequest, dice: random.Random) -> bytes:
    """The JSON of a request, in one of ten damaged or grown; it may be no request any more."""
    data = write_request(request)
    if dice.random() < 0.9:
        return data
    review = {"request": {"object": msgspec.json.decode(data)}}
    try:
        for _ in range(dice.choice((1, 1, 2))):
            (hostile.damage if dice.random() < 0.7 else hostile.enlarge)(review, dice)
    except (TypeError, AttributeError, KeyError, IndexError, ValueError):
        pass  # what was damaged before has no such place any more
    return msgspec.json.encode(review["request"]["object"])


def constraints(dice: random.Random) -> Constraints:
    """Demands on a node, in one of twenty as many as a pod may have."""
    is_large = dice.random() < 0.05
    return Constraints(
        node_selector={dice.choice(KEYS): dice.choice(VALUES)} if dice.random() < 0.3 else {},
        required_terms=dice.choice([None, _terms(dice, MOST_TERMS if is_large else 2)]),
        tolerations=tuple([value_of(_TOLERATION, dice) for _ in range(dice.choice([0, 0, 1, 2]))]),
        node_name=dice.choice([None, None, None, None, None, *NODES[:2]]),
    )


def _terms(dice: random.Random, most: int) -> tuple[NodeSelectorTerm, ...]:
    return tuple([_term(dice, most) for _ in range(dice.randint(0, most))])


def _term(dice: random.Random, most: int) -> NodeSelectorTerm:
    keys = ["metadata.name"] if dice.random() < 0.2 else [*KEYS, f"k-{dice.randrange(10**6)}"]
    values = [*NODES, *VALUES, *(f"v-{dice.randrange(1000)}" for _ in range(2))]
    asked = tuple(
        [
            Requirement(
                dice.choice(keys),
                dice.choice(OPERATORS),
                tuple(dice.choices(values, k=dice.randint(0, min(most, MOST_VALUES)))),
            )
            for _ in range(dice.randint(0, 2))
        ]
    )
    return NodeSelectorTerm(match_fields=asked) if keys == ["metadata.name"] else NodeSelectorTerm(asked)


def value_of(kind: Any, dice: random.Random) -> Any:  # noqa: C901, PLR0911 one for each kind of type
    """Any value of a type: a field that is added later gets values too."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is typing.Annotated:
        return value_of(arguments[0], dice)
    if origin is typing.Literal:
        return dice.choice(arguments)
    if origin in (typing.Union, types.UnionType):
        return value_of(dice.choice(arguments), dice)
    if origin in (tuple, list, frozenset):
        some = [each for each in arguments if each is not Ellipsis]
        if arguments and arguments[-1] is not Ellipsis and origin is tuple:
            return tuple(value_of(each, dice) for each in some)
        return origin(value_of(some[0], dice) for _ in range(dice.choice([0, 1, 1, 2, 3])))
    if origin is dict:
        return {value_of(arguments[0], dice): value_of(arguments[1], dice) for _ in range(dice.randint(0, 2))}
    if origin in _LISTED:
        return dice.choice(_LISTED[origin])
    if isinstance(origin, type) and (issubclass(origin, msgspec.Struct) or dataclasses.is_dataclass(origin)):
        return origin(**{name: value_of(each, dice) for name, each in _types(origin).items()})
    if origin is bool:
        return dice.random() < 0.5
    if origin is int:
        return dice.choice(NUMBERS)
    return dice.choice(NAMES) if origin is str else None


@cache
def _types(kind: type) -> dict[str, Any]:
    """The fields of a struct or dataclass, and their types."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if issubclass(kind, msgspec.Struct):
        return {name: hints[name] for name in kind.__struct_fields__}
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


_LISTED: dict[type, list[Any]] = {Fraction: FRACTIONS, Instance: INSTANCES}
"""Types of which not every value can be."""
_TOLERATION = typing.get_args(_types(Constraints)["tolerations"])[0]
_SET = ("reservation", "quotas", "namespace", "fraction", "is_gated")
"""Not drawn by type. No quota counts a gated pod, and the pods of these epochs never wait at a gate."""
_FIELDS = {
    name: kind for part in (RequestedShare, Demands, Accounting) for name, kind in _types(part).items()
}
_OTHERS = {name: kind for name, kind in _FIELDS.items() if name not in _SET}
