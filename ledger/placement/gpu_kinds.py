"""The kinds of GPU in the cluster: models, values of nvidia.com/gpu.memory, offered MIG instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.accounts import add_to
from ledger.owners import GpuModel
from ledger.placement.cards import layout
from ledger.placement_request import Assumption, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.gpu_kinds import GpuKinds
from modes.mode import Offer
from modes.registry import MODES

_MAX_NAMED, _MAX_TOLD = 3, 40


class KnownKinds:
    """Counts the nodes of each kind."""

    def __init__(self) -> None:
        self._values: Counter[tuple[int, str]] = Counter()
        """By MiB of one GPU and the label that states it."""
        self.kinds: Counter[GpuModel] = Counter()
        """Number of nodes by kind of GPU, by their cards if known, else by their labels."""
        self.labels: Counter[GpuModel] = Counter()
        """Number of nodes by the kind of GPU in their labels."""
        self.offers: Counter[Offer] = Counter()
        """Number of nodes by what they offer of MIG instances: the model, and its units."""

    def add(self, node: NodeFact, by: int = 1) -> None:
        """Count a node; `by` -1 is the inverse."""
        if node.gpu_mib is not None:
            add_to(self._values, (node.gpu_mib, node.labels[GPU_MEMORY_LABEL]), by)
        for kind in _kinds_of(node):
            add_to(self.kinds, kind, by)
        add_to(self.labels, model_of(node), by)
        for offer in _offers(node):
            add_to(self.offers, offer, by)

    def of_share(self, request: PlacementRequest, gpu_mib: int) -> tuple[str, ...]:
        """The values for which the share gives the same MiB as for `gpu_mib`; empty if memory does not bind.

        They are sorted. For requested MiB, they are the values for which these give the same slices. Cards
        with less memory than the pod accepts are left out.
        """
        if not request.share.is_bound_by_memory:
            return ()
        fraction, least = request.share.fraction, request.demands.kinds.min_mib
        share = fraction.share_mib(gpu_mib)
        return tuple(
            [
                text
                for mib, text in sorted(self._values)
                if mib >= least and fraction.share_mib(mib) == share and fraction.on_card(mib) == fraction
            ]
        )

    def not_of_size(self, fraction: Fraction) -> tuple[str, ...]:
        """The values for which requested MiB give other slices, or do not fit; sorted."""
        return tuple([text for mib, text in sorted(self._values) if fraction.on_card(mib) != fraction])

    def sizes(self, fraction: Fraction) -> list[Fraction]:
        """The requested MiB as slices on each GPU size of the cluster, the fewest first; slices unchanged."""
        if not fraction.is_of_memory:
            return [fraction]
        known = {mib for mib, _ in self._values} | {mib for _, mib in self.kinds if mib}
        sizes = {fraction.on_card(mib) for mib in known}
        return sorted([size for size in sizes if size is not None], key=lambda size: size.slices)

    def models_of(self, kinds: GpuKinds) -> tuple[str, ...]:
        """Return the models in nodes' labels that a pod accepts, sorted; empty if it names none."""
        known = {model for model, _ in self.labels if model and kinds.takes_model(model)}
        return tuple(sorted(known)) if kinds.models else ()

    def no_such_kind(self, kinds: GpuKinds, assume: Assumption | None) -> Unschedulable | None:
        """Return why no GPU is of a kind that a pod accepts; None if one is, or could come."""
        taken = [(model, mib or 0) for model, mib in self.kinds if kinds.takes_model(model)]
        if kinds.models and not any(model for model, _ in taken):
            models = named_models(model for model, _ in self.kinds)
            advice = f"the cluster has {models}; fix the annotation"
            if not models:
                advice = f"no node has the label {GPU_PRODUCT_LABEL}; ask the admin to set it"
            return Unschedulable(f"no GPU has one of its models: {advice}")
        largest = max([mib for _, mib in taken], default=kinds.min_mib)
        is_assumed = assume is not None and assume.gpu_mib >= kinds.min_mib
        could_come = not kinds.models and (is_assumed or not any(mib for _, mib in self.kinds))
        if largest < kinds.min_mib and not could_come:
            why = f"no accepted GPU has {kinds.min_mib} MiB, the largest has {largest}"
            return Unschedulable(f"{why}: request less, or other models")
        return None


def named_models(models: Iterable[str | None]) -> str:
    """Return the first models, each once, and how many more there are; empty if none is known."""
    known = sorted({model for model in models if model})
    more = f" and {len(known) - _MAX_NAMED} more" if len(known) > _MAX_NAMED else ""
    return f"{', '.join(known[:_MAX_NAMED])}{more}"


def _kinds_of(node: NodeFact) -> set[GpuModel]:
    found = layout(node)
    if found is None:
        return {model_of(node)}
    return {(card.model or None, card.mib) for _, card in found.cards}


def _offers(node: NodeFact) -> list[Offer]:
    units = [mode.resource_units(node) for mode in MODES.values() if mode.gives_instances]
    return [(node.product, node.mig_card, each) for each in units if each]


def model_of(node: NodeFact) -> GpuModel:
    """Return the GPU model of a node, by its labels."""
    return node.labels.get(GPU_PRODUCT_LABEL) or None, node.gpu_mib


def keep_to(model: GpuModel, request: PlacementRequest) -> PlacementRequest | None:
    """Return the request restricted to nodes of one model; None if the pod itself requires another.

    A missing label of the model is not required: a node affinity could not require it either.
    """
    constraints = request.demands.constraints
    labels = {GPU_PRODUCT_LABEL: model[0], GPU_MEMORY_LABEL: str(model[1]) if model[1] is not None else None}
    required = {key: value for key, value in labels.items() if value is not None}
    selector = {**required, **constraints.node_selector}
    if any(selector[key] != value for key, value in required.items()):
        return None
    return request.with_demands(constraints=msgspec.structs.replace(constraints, node_selector=selector))


def model_to_wait_for(
    samples: Iterable[tuple[NodeFact, int]], indices: tuple[int, ...], gpu_mib: int
) -> GpuModel:
    """Return the model that most of the counted nodes with these indices and memory have."""
    products: Counter[str] = Counter()
    for node, count in samples:
        if (node.gpu_mib or 0) == gpu_mib and set(indices) <= dict(node.gpus).keys():
            products[node.labels.get(GPU_PRODUCT_LABEL) or ""] += count
    product = min(products, key=lambda name: (-products[name], name), default="")
    return product or None, gpu_mib or None


def no_such_node(model: GpuModel) -> Unschedulable:
    """Return the refusal of a pod that no node of its owner's model could ever hold."""
    product, mib = model
    text = (product or f"GPUs of {mib} MiB")[:_MAX_TOLD]
    return Unschedulable(
        f"sameModel requires {text}, as its owner's pods have: change the pod's demands, or delete those pods"
    )
