"""Policies in the values of this product's own chart, with the lines of the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from modes.registry import CLAIM_MODE
from policies.loading.clearml_chart import ROOT
from policies.loading.compile import compile_policies
from policies.loading.policy_set import DEFAULT, PolicySet
from policies.loading.sources import parts_of
from policies.loading.strict_yaml import Document
from policies.model.problems import Path, PolicyError

OWN_KEYS = frozenset(
    ("policies", "limiters", "webhook", "controller", "agent", "secondLock", "tls", "image", "networkPolicy")
)
"""Top-level keys of this chart's values; a file with the agent chart's own key is never taken for one."""
_OWN_NAME = "fraction-injector"
_ONLY_OWN = {"limiters", "secondLock"}
"""Keys that no other chart has: this chart, whatever an umbrella chart calls it."""
_BY_NAME = {"policies": "Policy", "limiters": "Limiter"}
_HEAD: Sequence[Path] = ((), ("kind",), ("name",))
"""Keys that a document of one policy has more than its part of the values."""
_AGENT = {"enabled": False, "offer": "auto", "policy": DEFAULT, "deviceListStrategy": "cdi", "divide": ()}
"""The chart's own values, as far as they decide the mode."""
_QUEUES = ("queues", "basePodTemplate")


def are_values(document: Document) -> bool:
    """Whether a document holds values of this product's chart."""
    found = document.data.keys() if isinstance(document.data, dict) else set()
    return bool(OWN_KEYS & found) and ROOT not in found


def charts_in(document: Document) -> list[Document]:
    """Return the values of this chart and of ClearML agents in an umbrella chart's; else the document."""
    values = document.data if isinstance(document.data, dict) else {}
    found = [] if ROOT in values else [key for key, each in values.items() if _is_known_chart(key, each)]
    return [document.part(key) for key in found] or [document]


def _is_known_chart(key: str, values: Any) -> bool:
    own = values.keys() if isinstance(values, dict) else set()
    if ROOT in own or key in (*OWN_KEYS, *_QUEUES):
        return ROOT in own
    return bool(own & (OWN_KEYS if key == _OWN_NAME else _ONLY_OWN))


def policies_of_values(documents: Sequence[Document]) -> PolicySet:
    """Return the policies that the chart makes of its values.

    Raises:
        PolicyError: with every problem.
    """
    offers_cards = any(map(_offers_cards, documents))
    found = [each for document in documents for each in _documents(document)]
    made = [_decided(each, offers_cards=offers_cards) for each in found]
    if not any(each.data["kind"] == "Policy" and each.data["name"] == DEFAULT for each in made):
        # As in the chart's own values, which Helm merges with these.
        head = {"kind": "Policy", "name": DEFAULT}
        default = Document(documents[0].file, head, dict.fromkeys(_HEAD, 1))
        made.append(_decided(default, offers_cards=offers_cards))
    return compile_policies(parts_of(made))


def _offers_cards(values: Document) -> bool:
    """Whether the agent of these values offers shares of cards, on Kubernetes 1.36 and newer."""
    data = values.data if isinstance(values.data, dict) else {}
    agent = _AGENT | _mapping(values, data, ("agent",))
    if agent["enabled"] is not True or agent["offer"] != "auto":
        return agent["enabled"] is True and agent["offer"] == "dra"
    policy = _mapping(values, _mapping(values, data, ("policies",)), ("policies", str(agent["policy"])))
    is_for_plugins = agent["divide"] or _mapping(values, data, ("devicePlugin",)).get("enabled")
    return agent["deviceListStrategy"] == "cdi" and not is_for_plugins and _leaves_mode(policy)


def _leaves_mode(policy: Mapping[str, Any]) -> bool:
    """Whether a policy leaves its mode to the chart: nothing in its `resources` is of one mode."""
    resources = policy.get("resources") or {}
    if not isinstance(resources, dict):
        return False
    return resources.get("mode", "auto") == "auto" and not resources.keys() & {"name", "prefer", "driver"}


def _decided(document: Document, *, offers_cards: bool) -> Document:
    """Return a policy that leaves its mode to the chart with the mode that the chart gives it."""
    data = document.data
    if not offers_cards or data["kind"] != "Policy" or not _leaves_mode(data):
        return document
    return replace(document, data=data | {"resources": (data.get("resources") or {}) | {"mode": CLAIM_MODE}})


def _documents(values: Document) -> Iterator[Document]:
    data = values.data if isinstance(values.data, dict) else {}
    for key, kind in _BY_NAME.items():
        for name, entry in _mapping(values, data, (key,)).items():
            path = (key, name)
            head = {"kind": kind, "name": name} | _mapping(values, {name: entry}, (key, name))
            lines = {**dict.fromkeys(_HEAD, values.line_of(path)), **values.part(*path).lines}
            yield Document(values.file, head, lines)
    queues = {key: data[key] for key in _QUEUES if data.get(key)}
    if queues:
        lines = {path: line for path, line in values.lines.items() if path[:1] != ("kind",)}
        data = {"kind": "Queues", "queues": {}} | queues
        yield Document(values.file, data, {("kind",): 1, **lines}, values.above)


def _mapping(values: Document, parent: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the mapping at a path; empty if it is missing or null.

    Raises:
        PolicyError: it is something else.
    """
    found = parent.get(str(path[-1]))
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise PolicyError([values.problem(path, "must be a mapping by name")])
    return found
