"""Policies in the values of this product's own chart, with the lines of the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from kube.dra import DRIVER
from modes.registry import CLAIM_MODE, INSTANCE_MODE
from policies.loading.clearml_chart import ROOT
from policies.loading.compile import compile_policies
from policies.loading.policy_set import DEFAULT, PolicySet
from policies.loading.sources import parts_of
from policies.loading.strict_yaml import Document
from policies.model.problems import Path, PolicyError, Problem
from policies.model.schema import AUTO, stated_mode

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
_AGENT: Mapping[str, Any] = {"enabled": False, "offer": "auto", "policy": DEFAULT, "divide": ()}
"""The chart's own values, as far as they decide the mode."""
Offer = Literal["slices", "claims", "by version"]
"""`by version`: claims from Kubernetes 1.36 on."""
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
    """Return the policies that the chart makes of its values, before Kubernetes 1.36 if that decides.

    Raises:
        PolicyError: with every problem.
    """
    return compile_policies(parts_of(_made(documents), by_claim=_offer(documents) == "claims"))


def problems_from_1_36(documents: Sequence[Document]) -> Sequence[Problem]:
    """Return what is wrong with the policies that the chart makes of its values from Kubernetes 1.36 on."""
    if _offer(documents) != "by version":
        return ()
    try:
        compile_policies(parts_of(_made(documents), by_claim=True))
    except PolicyError as error:
        return error.problems
    return ()


def _made(documents: Sequence[Document]) -> list[Document]:
    """Return the policy files that the chart makes."""
    made = [each for document in documents for each in _documents(document)]
    if not any(each.data["kind"] == "Policy" and each.data["name"] == DEFAULT for each in made):
        # As in the chart's own values, which Helm merges with these.
        made.append(Document(documents[0].file, {"kind": "Policy", "name": DEFAULT}, dict.fromkeys(_HEAD, 1)))
    return made


def _offer(documents: Sequence[Document]) -> Offer:
    """Return how the agent offers cards, as `fraction-injector.offer` in the chart's templates does."""
    agent, by_plugin, stated = dict(_AGENT), False, dict[str, tuple[Any, bool]]()
    for values in documents:
        data = values.data if isinstance(values.data, dict) else {}
        agent |= {key: each for key, each in _mapping(values, data, ("agent",)).items() if each is not None}
        by_plugin |= _mapping(values, data, ("devicePlugin",)).get("enabled") is True
        policies = _mapping(values, data, ("policies",)).items()
        stated |= {name: _stated(policy) for name, policy in policies if isinstance(policy, dict)}
    modes = {mode for mode, _ in stated.values()}
    if agent["enabled"] is not True:
        return "slices"
    if agent["offer"] != "auto" or (CLAIM_MODE, True) in stated.values():
        return "slices" if agent["offer"] == "device-plugin" else "claims"
    own, _ = stated.get(agent["policy"], (AUTO, False))
    if own != AUTO or modes - {AUTO, CLAIM_MODE, INSTANCE_MODE}:
        return "slices"
    return "slices" if by_plugin or agent["divide"] else "by version"


def _stated(policy: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the mode that a policy states, as `stated_mode`, and whether it claims the agent's cards."""
    resources = policy.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    mode = stated_mode(resources)
    is_of_agent = (resources.get("driver") or DRIVER) == DRIVER
    return mode, mode == CLAIM_MODE and is_of_agent


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
