"""The pods that wait for a quota: their order, and which of them may go now.

Pods go by priority, then by age. Each quota has its own line. If the first pod of a line has no room in the
quota, the line is closed: no later pod goes before it, however small. In the pod's other quotas, its room is
kept, so that these cannot delay it afterwards; the caller says when no longer, as others share them. A pod
that is larger than its quota can never go, and closes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Literal, NamedTuple

from ledger.gpu_memory import GpuMemory
from ledger.placement_request import OverQuota, Quota
from ledger.quota_usage import NOTHING_USED, QuotaUsage, Used, exceeded
from modes.facts import PodFact, PodKey

STEPS_AT_ONCE = 256
"""Groups that are looked at before other tasks run."""
GROUPS_OF_A_PLACE = 256
"""Groups that are looked at for the place of one pod. Pods' authors can make any number of groups."""
LineState = Literal["off", "settling", "open"]
"""`off`: nobody removes gates here, so pods over a quota are denied. `settling`: a new leader does not know
the line yet, so every pod under a quota waits. `open`: only those wait that have to."""
_Order = tuple[int, str, str, str]
"""Priority, negated so that the highest sorts first; creation time, namespace and name."""


class LineGroup(NamedTuple):
    """What pods have in common that go one after the other."""

    namespace: str
    queues: tuple[str, ...]
    need: Used
    """What one of them adds to its quotas."""


QuotasOf = Callable[[str, tuple[str, ...]], tuple[Quota, ...] | None]
"""Returns the quotas of pods by namespace and queue keys; None if the policies are not known."""


def unknown_quotas(_namespace: str, _queues: tuple[str, ...]) -> None:
    """Return the quotas of pods where no policies are known."""


class QuotaLine:
    """All waiting pods of a ledger. The work grows with the groups of pods, not with the pods."""

    def __init__(self, usage: QuotaUsage, largest_mib: Callable[[], int]) -> None:
        """`largest_mib` returns the MiB of the largest known card."""
        self._usage = usage
        self._largest_mib = largest_mib
        self._groups: dict[LineGroup, list[_Order]] = {}
        self._pods: dict[PodKey, tuple[LineGroup, PodFact]] = {}
        self._held: dict[PodKey, tuple[LineGroup, PodFact]] = {}
        self._closed: set[Quota] = set()
        self._kept: dict[Quota, Used] = {}
        """Room of quotas for the first pods of other quotas' lines."""
        self.keepers: frozenset[str] = frozenset()
        """Namespaces for whose pods it is kept, as last checked."""
        self._changes = 0
        self._checked: object = None
        self.state: LineState = "off"
        self.steps = 0
        """Groups looked at so far."""

    def __len__(self) -> int:
        return len(self._pods) + len(self._held)

    def add(self, pod: PodFact, memory: GpuMemory) -> None:
        """Add a waiting pod; the inverse of `remove`."""
        self._insert(LineGroup(pod.namespace, pod.queues, Used(pod.counted_slices, 1, memory)), pod)

    def hold(self, key: PodKey) -> None:
        """Let a waiting pod neither go nor stop others, until it is resumed, or added again."""
        found = self._pods.get(key)
        if found is not None:
            self.remove(key)
            self._held[key] = found

    def resume(self, key: PodKey) -> None:
        """Give a held pod its place again; the inverse of `hold`."""
        found = self._held.pop(key, None)
        if found is not None:
            self._insert(*found)

    def _insert(self, group: LineGroup, pod: PodFact) -> None:
        self._pods[pod.key] = group, pod
        insort(self._groups.setdefault(group, []), _order(pod))
        self._changes += 1

    def remove(self, key: PodKey) -> None:
        """Remove a pod, if it waits."""
        self._held.pop(key, None)
        found = self._pods.pop(key, None)
        if found is None:
            return
        group, pod = found
        orders = self._groups[group]
        del orders[bisect_left(orders, _order(pod))]
        if not orders:
            del self._groups[group]
        self._changes += 1

    def close(self, quota: Quota) -> None:
        """Close a quota's line for a pod that was just admitted to it, until the line is checked again."""
        self._closed.add(quota)
        self._changes += 1

    def must_wait(self, quotas: Iterable[Quota], need: Used, largest_mib: int) -> bool:
        """Whether a new pod, which no quota refuses, must wait for pods that came before it."""
        if self.state == "settling":
            return True
        return any(
            quota in self._closed or exceeded(quota, self._used(quota, self._kept), need, largest_mib)
            for quota in quotas
        )

    def has_changed(self, policies: object) -> bool:
        """Whether another pod may go now; `policies` identifies the policies in force."""
        return self._version(policies) != self._checked

    def due(
        self,
        quotas_of: QuotasOf,
        policies: object,
        passed_over: Callable[[str], bool] = lambda _: False,
        without_room: Container[object] = frozenset(),
    ) -> Iterator[PodFact | None]:
        """Yield the pods that may go, in order; None where the caller should let other tasks run.

        Pods of a namespace that is `passed_over` neither go nor stop others. For those of a
        namespace in `without_room`, no room is kept.

        The caller removes each pod from the line and counts it before it continues; otherwise this ends.
        """
        # Changes meanwhile, this one's own included, are checked the next time.
        version = self._version(policies)
        closed: set[Quota] = set()
        kept: dict[Quota, Used] = {}
        keepers = set[str]()
        heads = [(orders[0], group) for group, orders in self._groups.items()]
        heapify(heads)
        while heads:
            first, group = heappop(heads)
            self.steps += 1
            if self.steps % STEPS_AT_ONCE == 0:
                yield None
            if passed_over(group.namespace):
                continue
            if self._first(group) == first:
                full = self._full(group, quotas_of, closed, kept)
                if full is None or full:
                    may_keep = bool(full) and group.namespace not in without_room
                    if may_keep and self._keep(group, quotas_of, full or (), kept):
                        keepers.add(group.namespace)
                    continue
                yield self._pods[first[2:]][1]
                if self._first(group) == first:
                    return
            if (now_first := self._first(group)) is not None:
                heappush(heads, (now_first, group))
        self._closed, self._kept, self._checked = closed, kept, version
        self.keepers = frozenset(keepers)

    def place_text(self, key: PodKey, quotas_of: QuotasOf) -> str | None:
        """Return where a pod is in its line and what it waits for, in words; None if it does not wait."""
        found = self._pods.get(key)
        if found is None:
            return None
        group, pod = found
        quotas = quotas_of(group.namespace, group.queues) or ()
        if not quotas:
            return "its turn comes in a moment: no quota applies to it any more"
        full = [(over, quota) for quota in quotas if (over := self._over(quota, group.need, {}))]
        shut = [(None, quota) for quota in quotas if quota in self._closed]
        over, quota = [*full, *shut, (None, quotas[0])][0]
        line = f"{self._position(pod, group, quota, quotas_of)} in the line of the quota of"
        return f"{line} {quota.scope} {quota.name}: {_lack_in_words(over)}"

    def _position(self, pod: PodFact, group: LineGroup, quota: Quota, quotas_of: QuotasOf) -> str:
        """Where a pod is in a line; if that has too many groups to look at, the first possible place."""
        others = (each for each in self._groups if each != group)
        looked_at = [group, *islice(others, GROUPS_OF_A_PLACE)]
        self.steps += len(looked_at)
        of_line = [each for each in looked_at if quota in (quotas_of(each.namespace, each.queues) or ())]
        lines = [self._groups[each] for each in of_line]
        position, length = 1 + sum([bisect_left(line, _order(pod)) for line in lines]), sum(map(len, lines))
        is_exact = len(looked_at) == len(self._groups)
        return f"{position} of {length}" if is_exact else f"{position} or later of {length} or more"

    def lengths(self, quotas_of: QuotasOf) -> Mapping[Quota, int]:
        """Return the number of waiting pods of each quota that has any."""
        found: dict[Quota, int] = {}
        for group, orders in self._groups.items():
            for quota in quotas_of(group.namespace, group.queues) or ():
                found[quota] = found.get(quota, 0) + len(orders)
        return found

    def _version(self, policies: object) -> object:
        return self._changes, self._usage.changes, self._largest_mib(), policies

    def _first(self, group: LineGroup) -> _Order | None:
        orders = self._groups.get(group)
        return orders[0] if orders else None

    def _full(
        self, group: LineGroup, quotas_of: QuotasOf, closed: set[Quota], kept: Mapping[Quota, Used]
    ) -> set[Quota] | None:
        """Close the full lines of a group, and return their quotas; None if it must not go anyway."""
        quotas = quotas_of(group.namespace, group.queues)
        if quotas is None or any(quota in closed for quota in quotas):
            return None
        if any(exceeded(quota, NOTHING_USED, group.need, self._largest_mib()) for quota in quotas):
            return None
        full = {quota for quota in quotas if self._over(quota, group.need, kept)}
        closed |= full
        return full

    def _keep(
        self, group: LineGroup, quotas_of: QuotasOf, full: Container[Quota], kept: dict[Quota, Used]
    ) -> bool:
        """Keep room for a pod in its quotas that are not full; return False if it has no others."""
        others = [each for each in quotas_of(group.namespace, group.queues) or () if each not in full]
        for quota in others:
            kept[quota] = _sum(kept.get(quota, NOTHING_USED), group.need)
        return bool(others)

    def _over(self, quota: Quota, need: Used, kept: Mapping[Quota, Used]) -> OverQuota | None:
        return exceeded(quota, self._used(quota, kept), need, self._largest_mib())

    def _used(self, quota: Quota, kept: Mapping[Quota, Used]) -> Used:
        used = self._usage.of(quota)
        return _sum(used, kept[quota]) if quota in kept else used


def _lack_in_words(over: OverQuota | None) -> str:
    if over is None:
        return "it waits for the pods before it"
    unit = "MiB of GPU memory" if over.unit == "MiB" else over.unit
    if over.asked > over.limit:
        return f"it needs {over.asked} {unit}, but the quota is only {over.limit}, so it never starts"
    return f"{over.used} of {over.limit} {unit} are used, it needs {over.asked}"


def _sum(one: Used, other: Used) -> Used:
    return Used(one.slices + other.slices, one.pods + other.pods, one.memory.plus(other.memory))


def _order(pod: PodFact) -> _Order:
    wait = pod.quota_wait
    if wait is None:
        raise AssertionError("only waiting pods are in a line")
    return -wait.priority, wait.since, pod.namespace, pod.name
