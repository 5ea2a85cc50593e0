"""Chooses the node and the GPUs that a pod gets: the best with room, otherwise an index to wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from ledger.accounts import NodeAccount
from ledger.claims import ClaimOptions
from ledger.owners import GpuModel, Owners
from ledger.placement.best_gpus import best_gpus
from ledger.placement.candidates import CandidateFinder, Candidates
from ledger.placement.gpu_kinds import KnownKinds, keep_to, model_of, model_to_wait_for, no_such_node
from ledger.placement.hosts import on_hosts
from ledger.placement.node_class import Found
from ledger.placement.prices import UNIT
from ledger.placement.waiting import PendingPods, assumed_indices, capacity_of, waiting_places
from ledger.placement_request import Oversized, Placement, PlacementRequest, Unschedulable
from modes.gpu_kinds import EVERY_KIND

_Options = list[Placement] | Unschedulable
_Answers = Sequence[tuple[PlacementRequest, _Options]]
_ClaimWaits = Callable[[PlacementRequest, Placement], int]
_MAX_COUNTS = 8
"""Distinguished numbers of an owner's pods on one node, the lowest ones: each costs a search of all nodes."""
MAX_REASON = 120
"""Characters of the reason why a mode was passed over."""


class Choice:
    """Chooses among the nodes of a ledger, and changes nothing in it."""

    def __init__(
        self,
        finder: CandidateFinder,
        owners: Owners,
        known: KnownKinds,
        pending: PendingPods,
        claims: ClaimOptions,
    ) -> None:
        self._index, self._finder, self._owners = finder.index, finder, owners
        self._known, self._pending, self._claims = known, pending, claims

    def options(self, request: PlacementRequest) -> _Options:
        """Return the placements that a pod can have, the best first, or why no node can ever hold it.

        Containers that may use different GPUs get them if no single GPU has room for all. If none has room,
        they wait for a single GPU. For requested MiB there is a placement for each number of slices that they
        are on GPUs of the cluster: first those with room, then those to wait for, with least wasted memory
        first.
        """
        if request.demands.prefer:
            answers = [(each, self.options(each)) for each in family_requests(request)]
            return preferred(answers, request.demands.oversized, self._claims.wait)
        if request.share.mode_type.is_claimed:
            return self._claims.options(request)
        request = self._finder.without_unknown(request)
        kinds = request.demands.kinds
        if kinds == EVERY_KIND:
            return self._options(request)
        none = self._known.no_such_kind(kinds, request.demands.assume)
        if none is not None:
            return none
        options, models = self._options(request), self._known.models_of(kinds)
        if isinstance(options, Unschedulable) or not models:
            return options
        # The instance's models are among these, and already restrict the pod.
        return [
            each if each.instance is not None or each.hosts else msgspec.structs.replace(each, models=models)
            for each in options
        ]

    def _options(self, request: PlacementRequest) -> _Options:
        share = request.share
        if share.mode_type.gives_instances:
            return self._instances(request)
        options = self._together(request)
        if not (share.any_gpu and share.fraction.containers > 1) or _has_room(options):
            return options
        if share.mode_type.several_gpus_problem is not None:
            return options
        on_several = request.with_share(fraction=share.fraction.apart()).with_demands(assume=None)
        apart = self._sized(on_several)
        return apart if _has_room(apart) or (apart and isinstance(options, Unschedulable)) else options

    def _together(self, request: PlacementRequest) -> _Options:
        if request.share.fraction.is_of_memory:
            placed = self._sized(request.with_demands(assume=None))
            if placed:
                return placed
            assume = request.demands.assume
            request = request.on_card(assume.gpu_mib if assume is not None else None)
        placement = self._choose(request)
        return placement if isinstance(placement, Unschedulable) else [placement]

    def _sized(self, request: PlacementRequest) -> _Options:
        """Return a placement for each size of the request on GPUs of the cluster, or why it cannot wait."""
        fraction = request.share.fraction
        sizes = self._known.sizes(fraction)
        requests = [request.with_share(fraction=size) for size in sizes]
        found = [(self._choose(each), each) for each in requests]
        refused = [each for each, _ in found if isinstance(each, Unschedulable) and each.is_for_now]
        placed = [(self._cost(each, sized), each) for each, sized in found if isinstance(each, Placement)]
        if refused and not placed:
            return refused[0]

        def order(option: tuple[int, Placement]) -> tuple[bool, int, int, int]:
            cost, each = option
            wasted = each.gpu_mib * each.slices // fraction.slices_per_gpu
            return each.node is None, cost, wasted, each.gpu_mib

        return [each for _, each in sorted(placed, key=order)]

    def _cost(self, placed: Placement, request: PlacementRequest) -> int:
        """What the taken places are worth to other pods, in UNITs of a slice; 0 if it waits."""
        account = self._index.accounts.get(placed.node) if placed.node is not None else None
        if account is None or not request.share.mode_type.prices_node_classes:
            return 0
        value = self._finder.select(request).score(account, request)
        return request.share.fraction.slices * UNIT - value if value is not None else 0

    def _instances(self, request: PlacementRequest) -> _Options:
        """Return placements on MIG instances: those with room first, the smallest first.

        Among instances of equal size to wait for, the one with the shortest queue comes first. Instances of
        more than twice the request are included only if there is no other, or if the policy takes them.
        """
        mode, demands, fraction = request.share.mode_type, request.demands, request.share.fraction
        offers = [each for each in self._known.offers if demands.kinds.takes_model(each[0])]
        fitting = mode.instances(fraction, offers, demands.resource)
        if not fitting:
            return Unschedulable(mode.none_holds(fraction, offers, demands.resource))
        found = [(self._given(each), each) for each in map(request.for_instance, fitting)]
        placed = [(answer, each) for answer, each in found if isinstance(answer, Placement)]
        if not placed:
            return next(answer for answer, _ in found if isinstance(answer, Unschedulable))
        if demands.oversized == "wait":
            placed = [option for option in placed if not option[0].is_more_than_twice] or placed

        def order(option: tuple[Placement, PlacementRequest]) -> tuple[bool, int, int, int]:
            answer, waits = option[0], option[0].node is None
            load = self._load(option[1]) if waits else 0
            return waits, option[1].share.slices, load, answer.gpu_mib

        return [answer for answer, _ in sorted(placed, key=order)]

    def _load(self, request: PlacementRequest) -> int:
        """Pods that wait for an instance of this kind, this pod included, per thousand instances."""
        capacity = capacity_of(self._finder.select(request), request)
        waiting = self._pending.slices(()).get(request.share.resource_unit, 0)
        return (waiting + 1) * 1000 // max(1, capacity)

    def _given(self, request: PlacementRequest) -> Placement | Unschedulable:
        placed, instance = self._choose(request), request.share.instance
        if isinstance(placed, Unschedulable) or instance is None:
            return placed
        if placed.model is not None:
            instance = msgspec.structs.replace(instance, products=(placed.model,))
        return msgspec.structs.replace(
            placed, indices=instance.indices, gpu_mib=instance.mib, instance=instance, slices=0
        )

    def _choose(self, request: PlacementRequest) -> Placement | Unschedulable:
        model = self._model_of_owner(request.accounting.owner) if request.keeps_model else None
        if model is None:
            return self._anywhere(request)
        kept = keep_to(model, request)
        placement = self._anywhere(kept) if kept is not None else None
        if not isinstance(placement, Placement):
            return placement if placement is not None and placement.is_for_now else no_such_node(model)
        # An assumed node has no known model.
        return msgspec.structs.replace(placement, model=model[0]) if placement.degraded else placement

    def _anywhere(self, request: PlacementRequest) -> Placement | Unschedulable:
        candidates = self._finder.select(request)
        if not candidates.nodes:
            return self._assumed(request)
        found = self._best(candidates, request) if not request.demands.is_gated else None
        if found is None:
            return self._wait(candidates, request)
        account, fact, node_class = found[1], found[1].fact, self._index.class_of(found[1].name)
        if fact is None or node_class is None:
            return self._wait(candidates, request)
        indices = best_gpus(account, node_class, request)
        placed = self._placed(request, indices, model_of(fact), account.name)
        if not request.share.is_bound_by_memory:
            # The MiB of the chosen cards may differ from the node's label.
            placed = msgspec.structs.replace(placed, gpu_mib=fact.card_mib(indices) or 0)
        return on_hosts(placed, request, candidates, self._index)

    def _wait(self, candidates: Candidates, request: PlacementRequest) -> Placement | Unschedulable:
        """Return the placement of a pod that waits: the best kind of GPU that some node can give it later."""
        answer: Placement | Unschedulable | None = None
        for indices, gpu_mib in waiting_places(candidates, request, self._pending, self._known):
            model: GpuModel = None, gpu_mib
            if request.demands.same_model:
                model = model_to_wait_for(candidates.samples(), indices, gpu_mib)
            answer = on_hosts(self._placed(request, indices, model, None), request, candidates, self._index)
            if isinstance(answer, Placement):
                return answer
        return answer if answer is not None else self._finder.why_unschedulable(request)

    def _best(self, candidates: Candidates, request: PlacementRequest) -> Found | None:
        """Return the best node; with `spread` of those with room that have the fewest of the owner's pods."""
        found = candidates.best(request)
        if not request.is_spread or found is None:
            return found
        on_nodes = self._owners.on_nodes(request.accounting.owner)
        for count in sorted({0, *on_nodes.values()})[:_MAX_COUNTS]:
            if count >= on_nodes.get(found[1].name, 0):
                break
            fewer = candidates.best(request, partial(_has_pods, on_nodes, count))
            if fewer is not None:
                return fewer
        return found

    def _model_of_owner(self, owner: str) -> GpuModel | None:
        """Return the GPU model of an owner's pods; if they differ, that of the first node by name."""
        nodes = self._owners.on_nodes(owner)
        first = min(filter(self._index.fact, nodes), default=None)
        fact = self._index.fact(first) if first is not None else None
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
        indices = assumed_indices(assume, request, self._pending)
        others, slices = self._known.not_of_size(fraction), fraction.slices_of_mib
        return Placement(
            indices, assume.gpu_mib, (), slices=slices, other_memory_values=others, degraded=True
        )

    def _placed(
        self, request: PlacementRequest, indices: tuple[int, ...], model: GpuModel, node: str | None
    ) -> Placement:
        product, gpu_mib, fraction = model[0], model[1] or 0, request.share.fraction
        values: tuple[str, ...] = (str(gpu_mib),) if gpu_mib else ()
        if not request.keeps_model:
            product, values = None, self._known.of_share(request, gpu_mib)
        containers = indices if fraction.is_apart else ()
        on, slices = tuple(sorted({*indices})), fraction.slices_of_mib
        return Placement(on, gpu_mib, values, node, model=product, slices=slices, containers=containers)


def _has_pods(on_nodes: Mapping[str, int], count: int, account: NodeAccount) -> bool:
    return on_nodes.get(account.name, 0) == count


def _has_room(options: _Options) -> bool:
    return not isinstance(options, Unschedulable) and any(each.node is not None for each in options)


def family_requests(request: PlacementRequest) -> list[PlacementRequest]:
    """Return the request for each preferred mode that can give what the pod names or shares."""
    found = [request.with_share(mode=mode).with_demands(prefer=()) for mode in request.demands.prefer]
    if request.demands.resource:
        return [each for each in found if each.share.mode_type.gives_instances]
    if request.share.fraction.containers:
        return [each for each in found if each.share.mode_type.several_containers_problem is None]
    return found


def preferred(answers: _Answers, oversized: Oversized, claim_waits: _ClaimWaits) -> _Options:
    """Return the placements that a pod can have in any of the modes, the best first, or why there is none.

    Placements with room come first, then the preferred mode. An instance of more than twice the request is
    used only if nothing else could ever hold the pod; with `oversized` "take", if nothing else has room.
    """
    placed = [
        (claim_waits(request, each) if request.share.is_claim(each) else int(each.node is None), rank, each)
        for rank, (request, found) in enumerate(answers)
        if not isinstance(found, Unschedulable)
        for each in found
    ]
    if not placed:
        refused = [found for _, found in answers if isinstance(found, Unschedulable)]
        return next((each for each in refused if each.is_for_now), refused[0])
    fitting = [option for option in placed if not option[2].is_more_than_twice]
    if oversized == "wait" and fitting:
        placed = fitting
    placed.sort(key=lambda option: (option[0], option[2].is_more_than_twice, option[1]))
    return [_with_reason(placement, answers[:rank]) for _, rank, placement in placed]


def _with_reason(placement: Placement, earlier: _Answers) -> Placement:
    """Return a placement with the reasons why more preferred modes were passed over."""
    reasons = [f"{request.share.mode} {_reason(found)}" for request, found in earlier]
    return msgspec.structs.replace(placement, passed_over="; ".join(reasons)[:MAX_REASON])


def _reason(found: _Options) -> str:
    if isinstance(found, Unschedulable):
        return f"cannot: {found.why}"
    instance = found[0].instance
    if instance is not None and instance.is_more_than_twice:
        return f"would give {instance.profile.name}, more than twice the request"
    return "has no room now"
