"""Limits a pod's demands on its node: no other pod is placed while the ledger looks them up.

The API server checks lengths only after mutation, so a key or value may be as long as the pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from kube.names import MAX_LABEL_KEY, MAX_LABEL_VALUE, MAX_NAME
from kube.scheduling import NodeSelectorTerm
from webhook.admission.affinity import required_terms
from webhook.admission.denial import Denial, Reason
from webhook.admission.pod import PodSpec

MAX_DEMANDS = 100
"""Of each kind: nodeSelector labels, tolerations, terms, expressions and fields of required node affinity."""
MAX_VALUES = 1000
"""In all expressions and fields."""
MAX_WORD = 32
"""Characters of an operator or effect; Kubernetes' longest is PreferNoSchedule."""

_Texts = Iterator[tuple[str, int, str | None]]
"""A field's name, its maximum length, and its text."""


def refuse_many_demands(spec: PodSpec) -> Denial | None:
    """Refuse a pod that would block the ledger for seconds, such as with 2,000 terms on 1,000 nodes."""
    if not (spec.node_selector or spec.tolerations or spec.node_name or spec.affinity is not None):
        return None
    terms = required_terms(spec) or ()
    return _refuse_number(spec, terms) or _refuse_length(spec, terms)


def _refuse_number(spec: PodSpec, terms: tuple[NodeSelectorTerm, ...]) -> Denial | None:
    requirements = sum(len(term.match_expressions or ()) + len(term.match_fields or ()) for term in terms)
    counts = {
        "nodeSelector labels": len(spec.node_selector or ()),
        "tolerations": len(spec.tolerations or ()),
        "expressions in required node affinity": requirements,
        "terms in required node affinity": len(terms),
    }
    for what, count in counts.items():
        if count > MAX_DEMANDS:
            return _too_many(count, what, MAX_DEMANDS)
    values = sum(
        len(requirement.values or ())
        for term in terms
        for requirement in (*(term.match_expressions or ()), *(term.match_fields or ()))
    )
    return _too_many(values, "values in required node affinity", MAX_VALUES) if values > MAX_VALUES else None


def _refuse_length(spec: PodSpec, terms: tuple[NodeSelectorTerm, ...]) -> Denial | None:
    for texts in (_of_spec(spec), _of_terms(terms)):
        for what, most, text in texts:
            if text is not None and len(text) > most:
                return Denial.of(
                    Reason.MANY_DEMANDS,
                    f"{what} of the pod has {len(text)} characters, but Kubernetes allows {most}: shorten it",
                )
    return None


def _of_spec(spec: PodSpec) -> _Texts:
    yield "spec.nodeName", MAX_NAME, spec.node_name
    for key, value in (spec.node_selector or {}).items():
        yield "a nodeSelector key", MAX_LABEL_KEY, key
        yield "a nodeSelector value", MAX_LABEL_VALUE, value
    for toleration in spec.tolerations or ():
        yield "a toleration's key", MAX_LABEL_KEY, toleration.key
        yield "a toleration's value", MAX_LABEL_VALUE, toleration.value
        yield "a toleration's operator", MAX_WORD, toleration.operator
        yield "a toleration's effect", MAX_WORD, toleration.effect


def _of_terms(terms: tuple[NodeSelectorTerm, ...]) -> _Texts:
    for term in terms:
        for requirements, most in ((term.match_expressions, MAX_LABEL_VALUE), (term.match_fields, MAX_NAME)):
            for requirement in requirements or ():
                yield "a key in required node affinity", MAX_LABEL_KEY, requirement.key
                yield "an operator in required node affinity", MAX_WORD, requirement.operator
                for value in requirement.values or ():
                    yield "a value in required node affinity", most, value


def _too_many(count: int, what: str, most: int) -> Denial:
    return Denial.of(
        Reason.MANY_DEMANDS,
        f"the pod has {count} {what}, more than {most}: label the nodes, and require that label",
    )
