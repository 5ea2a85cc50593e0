"""Read access to the ledger: nodes and their free amounts, pending claims, quotas and sums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from ledger.accounts import ClaimKey, NodeAccount
from ledger.card_view import cards_of_node
from ledger.claimed_cards import ClaimedCards
from ledger.owners import GpuModel, Owners
from ledger.placement.gpu_kinds import KnownKinds
from ledger.placement.node_index import NodeIndex
from ledger.placement.waiting import PendingPods
from ledger.placement_request import Quota
from ledger.quota_line import QuotaLine
from ledger.quota_usage import QuotaUsage, Used
from ledger.totals import CardTotals, RunningSums, Totals, card_totals_of
from ledger.view import LedgerView, NodeView, PendingView, node_view, pending_view, queue_of
from modes.facts import NodeFact, PodKey
from modes.mig_profiles import MigCard
from modes.units import Unit


class LedgerReader:
    """Reads the ledger. Only its subclass `LedgerWriter` changes it."""

    def __init__(self) -> None:
        self._node_index = NodeIndex()
        self._pending = PendingPods()
        self._owners = Owners()
        self._usage = QuotaUsage()
        self._kinds = KnownKinds()
        self.cards = ClaimedCards()
        """Cards that pods can claim, and what claims hold; the scheduler counts what is free on them."""
        self.line = QuotaLine(self._usage, self.largest_mib)
        """The pods that wait for a quota."""
        self._card_totals = RunningSums(
            lambda name: card_totals_of(self.cards.on(name), takes_pods=self._takes_pods(name))
        )

    def view(self) -> LedgerView:
        """All nodes with GPUs, and all pending claims."""
        nodes = [self.node(name) for name in self.names()]
        return LedgerView(tuple([node for node in nodes if node is not None]), self.pending())

    def pending(self) -> tuple[PendingView, ...]:
        """Pending pods and reservations: they have slices and no node."""
        return self.pending_of(self.pending_keys())

    def pending_keys(self) -> list[ClaimKey]:
        """Keys of all pending claims of slices, by namespace and name."""
        return sorted([key for key, claim in self._pending.claims.items() if claim.takes])

    def pending_of(self, keys: Iterable[ClaimKey]) -> tuple[PendingView, ...]:
        """The pending claims of these keys; keys that are no longer pending are left out."""
        claims = [self._pending.claims.get(key) for key in keys]
        return tuple([pending_view(claim) for claim in claims if claim is not None])

    def first_pending(self, count: int) -> tuple[tuple[PendingView, str], ...]:
        """Return the first pending claims, as they arrived, each with its ClearML queue's key, if any."""
        first = islice(self._pending.claims.values(), count)
        return tuple([(pending_view(claim), queue_of(claim)) for claim in first])

    def pending_count(self) -> int:
        """Return the number of claims that `first_pending` lists."""
        return len(self._pending.claims)

    def used_of(self, quota: Quota) -> Used:
        """Return the usage of a quota, reservations included."""
        return self._usage.of(quota)

    def largest_mib(self) -> int:
        """Return the MiB of the largest card in any node's label; 0 if no node states it."""
        return max([mib or 0 for _, mib in self._kinds.kinds], default=0)

    def may_have(self, memory_values: Collection[str]) -> bool:
        """Whether a node has one of these values in its GPU memory label; True while no node states any."""
        known = {mib for _, mib in self._kinds.labels if mib}
        return not known or any(int(value) in known for value in memory_values)

    def mig_cards(self) -> dict[str, MigCard]:
        """How cards can be divided, by their models, as the nodes that offer MIG instances say."""
        return {product: card for product, card, _ in self._kinds.offers if card is not None}

    def names(self) -> list[str]:
        """Names of all nodes that are known or have pods."""
        return sorted(self._node_index.accounts)

    def free_units(self, name: str) -> Mapping[Unit, int]:
        """What is free of each unit of a node; without cordoned GPUs."""
        return self._account(name).free_units()

    def gpu_kinds(self) -> Mapping[GpuModel, int]:
        """Number of nodes by (model, MiB of one GPU)."""
        return self._kinds.kinds

    def totals(self) -> Totals:
        """Sums over all nodes, in time that grows with the nodes that have changed since the last call."""
        return self._node_index.totals()

    def card_totals(self) -> Mapping[str, CardTotals]:
        """Sums of the cards of each DRA driver, in time that grows with the nodes that have changed."""
        return {driver: CardTotals(*amounts) for driver, amounts in self._card_totals.sums().items()}

    def pending_slices(self) -> int:
        """Slices of pods and reservations without a node."""
        return self._pending.total()

    def mib_used_of(self, quotas: Iterable[Quota]) -> dict[str, int]:
        """Return the usage of each quota in MiB of GPU memory, by the quota's name."""
        largest = self.largest_mib()
        return {quota.name: self._usage.of(quota).memory.at_most(largest) for quota in quotas}

    def used_by_namespace(self) -> Mapping[str, int]:
        """Slices by namespace: running, pending and reserved together."""
        return self._usage.namespaces

    def fact(self, name: str) -> NodeFact | None:
        """The facts of a node; None if it is unknown."""
        return self._node_index.fact(name)

    def node(self, name: str) -> NodeView | None:
        """The view of one node with GPUs or cards; None if there is none of this name."""
        account = self._node_index.accounts.get(name)
        if account is None:
            return None

        def queue(pod: PodKey) -> str:
            claim = account.claims.get(pod)
            return queue_of(claim) if claim is not None else ""

        cards = cards_of_node(self.cards, name, queue, takes_pods=self._takes_pods(name))
        return node_view(account, tuple(cards))

    def counted_slices(self, node: str, pod: PodKey) -> int:
        """Return the slices of a pod on a node, as quotas count them; 0 if it is unknown."""
        claim = self._account(node).claims.get(pod)
        return claim.counted_slices if claim is not None else 0

    def _account(self, name: str) -> NodeAccount:
        """The account of a node; an empty one if there is none of this name."""
        return self._node_index.accounts.get(name) or NodeAccount(name)

    def _takes_pods(self, name: str) -> bool:
        fact = self.fact(name)
        return fact is not None and fact.usable

    def room(self, name: str) -> tuple[int, int, dict[str, int]] | None:
        """A node's free milli-CPU and bytes of memory, and what is taken of others; None without the node."""
        account = self._node_index.accounts.get(name)
        if account is None:
            return None
        offered = account.fact.extended if account.fact is not None else {}
        taken = {each: amount for each, amount in account.extended.items() if each in offered}
        return account.cpu_free, account.memory_free, taken
