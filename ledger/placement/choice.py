"""Chooses the node and the GPUs that a pod gets: the best with room, otherwise an index to wait for."""

from __future__ import annotations

import msgspec

from ledger.owners import GpuModel, Owners
from ledger.placement.best_gpus import best_gpus
from ledger.placement.best_node import best, score
from ledger.placement.candidates import CandidateFinder, Candidates
from ledger.placement.gpu_kind_filter import models_of, no_such_kind
from ledger.placement.instance_offers import Option, within_twice
from ledger.placement.memory_values import MemoryValues
from ledger.placement.nearest import nearest
from ledger.placement.node_groups import Found
from ledger.placement.node_index import NodeIndex
from ledger.placement.odd_nodes import OddNodes
from ledger.placement.packing import UNIT
from ledger.placement.pending import PendingPods
from ledger.placement.pick_index import PickedIndex, pick_assumed_index, pick_index
from ledger.placement.pool_hosts import pool_hosts
from ledger.placement.preference import family_requests, preferred
from ledger.placement.same_model import commonest_model, keep_to, model_of, no_such_node
from ledger.placement.shadow_prices import ShadowPrices
from ledger.placement.spread import best_spread, has_replicas
from ledger.placement.work import TooMuchWorkError
from ledger.placement_request import Placement, PlacementRequest, Unschedulable
from modes.facts import NodeFact
from modes.gpu_kinds import EVERY_KIND
from modes.units import Pool, Profile


class Choice:
    """Chooses among the nodes of a ledger, and changes nothing in it."""

    def __init__(
        self,
        node_index: NodeIndex,
        finder: CandidateFinder,
        owners: Owners,
        values: MemoryValues,
        pending: PendingPods,
    ) -> None:
        self._node_index = node_index
        self._finder = finder
        self._owners = owners
        self._pending = pending
        self._values = values
        self._odd_nodes = OddNodes(node_index)

    def add_node(self, node: NodeFact) -> None:
        """Record a node with GPUs that some pods must avoid; the inverse of `remove_node`."""
        self._odd_nodes.add(node)

    def remove_node(self, node: NodeFact) -> None:
        """Remove a node; `node` holds the same facts as in `add_node`."""
        self._odd_nodes.remove(node)

    def options(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        """Return the placements that a pod can have, the best first, or why no node can ever hold it.

        Containers that may use different GPUs get them if no single GPU has room for all. If none has room,
        they wait for a single GPU. For requested MiB there is a placement for each number of slices that they
        are on GPUs of the cluster: first those with room, then those to wait for, with least wasted memory
        first.
        """
        work = self._finder.begin()
        try:
            return self._of_kinds(request, prices)
        except TooMuchWorkError:
            return work.refusal()

    def _of_kinds(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        kinds = request.demands.kinds
        if kinds == EVERY_KIND:
            return self._options(request, prices)
        none = no_such_kind(request, self._values.kinds())
        if none is not None and self._is_final(request):
            return none
        options = self._options(request, prices)
        models = models_of(kinds, self._values.labels())
        if isinstance(options, Unschedulable) or not models:
            return options
        # The instance's models are among these, and already restrict the pod.
        return [
            each if each.instance is not None or each.hosts else msgspec.structs.replace(each, models=models)
            for each in options
        ]

    def _is_final(self, request: PlacementRequest) -> bool:
        """Whether no kind will fit: if no GPU's memory is known, or `assume` fits, one still could."""
        assume, kinds = request.demands.assume, request.demands.kinds
        if kinds.models:
            return True
        is_assumed = assume is not None and assume.gpu_mib >= kinds.min_mib
        return not is_assumed and any(mib for _, mib in self._values.kinds())

    def _options(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        share = request.share
        if request.demands.prefer:
            answers = [(each, self._options(each, prices)) for each in family_requests(request)]
            return preferred(answers, request.demands.oversized)
        if share.mode_type.takes is Profile:
            return self._instances(request, prices)
        options = self._together(request, prices)
        if not (share.any_gpu and len(share.fraction.split) > 1) or _has_room(options):
            return options
        if share.mode_type.several_gpus_problem is not None:
            return options
        on_several = request.with_share(fraction=share.fraction.apart()).with_demands(assume=None)
        apart = self._sized(on_several, prices)
        return apart if _has_room(apart) or (apart and isinstance(options, Unschedulable)) else options

    def _together(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        if request.share.fraction.mib:
            placed = self._sized(request.with_demands(assume=None), prices)
            if placed:
                return placed
            assume = request.demands.assume
            request = request.on_card(assume.gpu_mib if assume is not None else None)
        placement = self._choose(request, prices)
        return placement if isinstance(placement, Unschedulable) else [placement]

    def _sized(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        """Return a placement for each size that the request has on GPUs of the cluster, best first.

        The list is empty if there is no such GPU. The result is a refusal if the pod cannot wait for one.
        """
        fraction = request.share.fraction
        sizes = self._values.sizes(fraction) if fraction.mib else [fraction]
        requests = [request.with_share(fraction=size) for size in sizes]
        found = [(self._choose(each, prices), each) for each in requests]
        refused = [each for each, _ in found if isinstance(each, Unschedulable) and each.is_for_now]
        placed = [
            (self._cost(each, sized, prices), each) for each, sized in found if isinstance(each, Placement)
        ]
        if refused and not placed:
            return refused[0]
        per_gpu = fraction.slices_per_gpu
        placed.sort(
            key=lambda option: (
                option[1].node is None,
                option[0],
                option[1].gpu_mib * option[1].slices // per_gpu,
                option[1].gpu_mib,
            )
        )
        return [each for _, each in placed]

    def _cost(self, placed: Placement, request: PlacementRequest, prices: ShadowPrices) -> int:
        """What the places that a placement takes are worth to other pods, in UNITs of a slice; 0 if it waits.

        It is 0 too in modes that do not price slices.
        """
        account = self._node_index.accounts.get(placed.node) if placed.node is not None else None
        if account is None or not request.share.mode_type.prices_node_classes:
            return 0
        value = score(account, request, prices)
        return request.share.fraction.slices * UNIT - value if value is not None else 0

    def _instances(self, request: PlacementRequest, prices: ShadowPrices) -> list[Placement] | Unschedulable:
        """Return placements on MIG instances: those with room first, the smallest first.

        Among instances of equal size to wait for, the one with the shortest queue comes first.
        """
        mode, demands, fraction = request.share.mode_type, request.demands, request.share.fraction
        offers = [each for each in self._values.instances.known() if demands.kinds.takes_model(each[0])]
        fitting = mode.instances(fraction, offers, demands.resource)
        if not fitting:
            return Unschedulable(mode.none_holds(fraction, offers, demands.resource))
        requests = [request.for_instance(each) for each in fitting]
        found = [(self._given(each, prices), each) for each in requests]
        placed = [Option(answer, self._load(each)) for answer, each in found if isinstance(answer, Placement)]
        if not placed:
            return next(answer for answer, _ in found if isinstance(answer, Unschedulable))
        return within_twice(placed, demands.oversized)

    def _load(self, request: PlacementRequest) -> int:
        """Pods that wait for an instance of this kind, this pod included, per thousand instances."""
        kinds = self._finder.select(request).kinds.values()
        capacity = sum([kind.capacity.get(request.share.resource_unit, 0) for kind in kinds])
        return (self._pending.slices(()).get(request.share.resource_unit, 0) + 1) * 1000 // max(1, capacity)

    def _given(self, request: PlacementRequest, prices: ShadowPrices) -> Placement | Unschedulable:
        placed, instance = self._choose(request, prices), request.share.instance
        if isinstance(placed, Unschedulable) or instance is None:
            return placed
        if placed.model is not None:
            instance = msgspec.structs.replace(instance, products=(placed.model,))
        return msgspec.structs.replace(
            placed, indices=instance.indices, gpu_mib=instance.mib, instance=instance, slices=0
        )

    def _choose(self, request: PlacementRequest, prices: ShadowPrices) -> Placement | Unschedulable:
        model = self._model_of_owner(request.accounting.owner) if request.keeps_model else None
        if model is None:
            return self._anywhere(request, prices)
        kept = keep_to(model, request)
        placement = self._anywhere(kept, prices) if kept is not None else None
        if not isinstance(placement, Placement):
            return placement if placement is not None and placement.is_for_now else no_such_node(model)
        # An assumed node has no known model.
        return msgspec.structs.replace(placement, model=model[0]) if placement.degraded else placement

    def _anywhere(self, request: PlacementRequest, prices: ShadowPrices) -> Placement | Unschedulable:
        candidates = self._finder.select(request)
        if candidates.is_empty:
            return self._assumed(request)
        found = self._best(candidates, request, prices) if not request.demands.is_gated else None
        if found is not None and (node := found[1].fact) is not None:
            indices = best_gpus(found[1], candidates.mode, request, prices)
            placed = self._placed(request, indices, model_of(node), node.name)
            placed = placed if candidates.is_bound_by_memory else _by_card(placed, node)
            return self._on_hosts(placed, request, candidates)
        return self._wait(candidates, request)

    def _wait(self, candidates: Candidates, request: PlacementRequest) -> Placement | Unschedulable:
        """Return the placement of a pod that waits: the best kind of GPU that some node can give it later."""
        answer: Placement | Unschedulable | None = None
        kinds = dict(candidates.kinds)
        while kinds and not isinstance(answer, Placement):
            wait = pick_index(kinds, request, self._pending, self._values)
            answer = self._waits(wait, request, candidates)
            del kinds[request.share.fraction.share_mib(wait.gpu_mib) if candidates.is_bound_by_memory else 0]
        return answer if answer is not None else self._finder.why_unschedulable(request)

    def _waits(
        self, wait: PickedIndex, request: PlacementRequest, candidates: Candidates
    ) -> Placement | Unschedulable:
        model: GpuModel = None, wait.gpu_mib
        if request.demands.same_model:
            model = commonest_model(candidates.samples(), wait.indices, wait.gpu_mib)
        return self._on_hosts(self._placed(request, wait.indices, model, None), request, candidates)

    def _on_hosts(
        self, placed: Placement, request: PlacementRequest, candidates: Candidates
    ) -> Placement | Unschedulable:
        """Return the placement with the hosts that it must name, if labels do not describe their cards."""
        if request.share.mode_type.takes is Pool:
            hosts = pool_hosts(request, placed, self._node_of(placed), candidates)
        else:
            hosts = self._odd_nodes.hosts(request, placed, candidates)
        if isinstance(hosts, Unschedulable):
            return hosts
        only, others = hosts
        if not (only or others):
            return placed
        return msgspec.structs.replace(placed, hosts=only, other_hosts=others)

    def _node_of(self, placed: Placement) -> NodeFact | None:
        return self._node_index.fact(placed.node) if placed.node is not None else None

    def _best(self, candidates: Candidates, request: PlacementRequest, prices: ShadowPrices) -> Found | None:
        if not request.is_spread:
            found = best(candidates, request, prices)
            return nearest(found, candidates, request, prices) if found is not None else None
        on_nodes = self._owners.on_nodes(request.accounting.owner)
        found = best_spread(candidates, request, prices, on_nodes, len(self._node_index.accounts))
        if found is None:
            return None
        alike = has_replicas(on_nodes.get(found[1].name, 0), on_nodes)
        return nearest(found, candidates, request, prices, alike)

    def _model_of_owner(self, owner: str) -> GpuModel | None:
        """Return the GPU model of an owner's pods; if they differ, that of the first node by name."""
        nodes = self._owners.on_nodes(owner)
        first = min(nodes, default=None)
        if first is not None and self._node_index.fact(first) is None:
            first = min((name for name in nodes if self._node_index.fact(name) is not None), default=None)
        fact = self._node_index.fact(first) if first is not None else None
        return model_of(fact) if fact is not None else self._owners.awaited(owner)

    def _assumed(self, request: PlacementRequest) -> Placement | Unschedulable:
        assume, fraction = request.demands.assume, request.share.fraction
        if (
            assume is None
            or assume.gpus_per_node < fraction.gpus
            or fraction.on_card(assume.gpu_mib) != fraction
            or assume.gpu_mib < request.demands.kinds.min_mib
        ):
            return self._finder.why_unschedulable(request)
        wait = pick_assumed_index(assume, request, self._pending)
        return Placement(
            wait.indices,
            wait.gpu_mib,
            (),
            slices=fraction.slices_of_mib,
            other_memory_values=self._values.not_of_size(fraction),
            degraded=True,
        )

    def _placed(
        self, request: PlacementRequest, indices: tuple[int, ...], model: GpuModel, node: str | None
    ) -> Placement:
        product, gpu_mib = model[0], model[1] or 0
        if request.share.fraction.is_apart:
            containers, indices = indices, tuple(sorted(set(indices)))
        else:
            containers = ()
        if not request.keeps_model:
            values = self._values.of_share(request, gpu_mib)
            product = None
        else:
            values = (str(gpu_mib),) if gpu_mib else ()
        slices = request.share.fraction.slices_of_mib
        return Placement(indices, gpu_mib, values, node, model=product, slices=slices, containers=containers)


def _has_room(options: list[Placement] | Unschedulable) -> bool:
    return not isinstance(options, Unschedulable) and any(each.node is not None for each in options)


def _by_card(placed: Placement, node: NodeFact) -> Placement:
    """Return the placement with the MiB of the chosen cards, which may differ from the node's label.

    Do not call it for a pod that is bound by memory: it requires the label's value.
    """
    return msgspec.structs.replace(placed, gpu_mib=node.card_mib(placed.indices) or 0)
