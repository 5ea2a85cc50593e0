"""How much a pod may demand of its node: the ledger puts every demand to every node."""

from __future__ import annotations

from webhook.injection.affinity import required_terms
from webhook.pod import PodSpec
from webhook.reasons import Denial, Reason

MOST_DEMANDS = 100
"""Of one kind: nodeSelector labels, tolerations, expressions and fields of the required node affinity."""
MOST_VALUES = 1000
"""In all expressions and fields together."""


def refuse_many_demands(spec: PodSpec) -> Denial | None:
    """Refuse a pod that would keep the ledger from everybody else for seconds: 2,000 terms on 1,000 nodes."""
    if spec.affinity is None and len(spec.tolerations or ()) + len(spec.node_selector or ()) <= MOST_DEMANDS:
        return None
    requirements = [
        requirement
        for term in required_terms(spec) or ()
        for requirement in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    counts = {
        "nodeSelector labels": len(spec.node_selector or ()),
        "tolerations": len(spec.tolerations or ()),
        "expressions in required node affinity": len(requirements),
    }
    for what, count in counts.items():
        if count > MOST_DEMANDS:
            return _too_many(count, what, MOST_DEMANDS)
    values = sum(len(requirement.values or ()) for requirement in requirements)
    return (
        _too_many(values, "values in required node affinity", MOST_VALUES) if values > MOST_VALUES else None
    )


def _too_many(count: int, what: str, most: int) -> Denial:
    return Denial.of(
        Reason.MANY_DEMANDS,
        f"the pod has {count} {what}, more than {most}: label the nodes, and ask for that label",
    )
