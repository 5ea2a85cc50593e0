"""What the pods of each queue and owner used of their shares, over weeks. Pure, and bounded in bytes.

If there are too many owners, the namespace with most of them loses the one that was seen longest ago, so that
one namespace cannot make the history forget the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec

from kube.names import MAX_NAME
from ledger.use import GpuSize, ShareUse, UsedShare, enough

MAX_OWNERS = 700
MAX_PODS = 8192
"""Running pods that are known to be counted; with more, some are counted again by a new leader."""
MAX_OWNER_BYTES = 200
"""Bytes of kind and name of an owner, as JSON writes them."""
MAX_QUEUE_TEXT = 64
KEPT_SECONDS = 30 * 24 * 3600
"""How long an owner is remembered after its last pod."""
POD_SECONDS = 3600
"""How long a pod that is not seen, such as while its agent restarts, is known to be counted."""
UID_DIGITS = 8
_HASH = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}")
"""Suffix of a ReplicaSet's name, by which a Deployment tells its ReplicaSets apart."""
_MINUTE = re.compile(r"-[0-9]{8}")
"""Suffix of a Job's name, by which a CronJob tells its Jobs apart."""
_SUFFIXES = {"ReplicaSet": ("Deployment", _HASH), "Job": ("CronJob", _MINUTE)}

HistoryKey = tuple[str, str, str, GpuSize]
"""Namespace, queue and owner, and the size of one GPU."""
_Text = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class OwnerUse(msgspec.Struct, rename="camel"):
    """What the pods of one queue and owner held and used of each GPU."""

    namespace: _Text
    queue: _Text
    owner: _Text
    """Kind and name of what created the pods; empty for pods that nothing created."""
    size: GpuSize
    held: _Count = 0
    """The largest share."""
    pods: _Count = 0
    """Pods that were seen."""
    seconds: _Count = 0
    """How long they were seen, together."""
    peak_mib: _Count = msgspec.field(default=0, name="peakMiB")
    """The most that one of them was seen to use."""
    p95_mib: _Count = msgspec.field(default=0, name="p95MiB")
    """The most that one of them used in 95 % of its time."""
    busy_percent: _Count | None = None
    """The most GPU time that one of them used in an hour; None if unknown."""
    enough: _Count = 0
    """The share that would have held the peak of each."""
    first_seen: _Count = 0
    """When the first of them was seen, in seconds since 1970; 0 if an older controller saw it."""
    held_seconds: _Count = 0
    """Slices or MiB that they held, of all their GPUs, each times its seconds."""
    last_seen: _Count = 0
    """When the last of them was seen, in seconds since 1970."""

    @property
    def key(self) -> HistoryKey:
        """Unique in the history."""
        return self.namespace, self.queue, self.owner, self.size

    def add(self, share: UsedShare, use: ShareUse) -> None:
        """Add what a pod holds of one GPU, and what it uses of it; not the pod and its time."""
        self.held = max(self.held, share.held)
        self.peak_mib = max(self.peak_mib, use.peak_mib)
        self.p95_mib = max(self.p95_mib, use.p95_mib)
        self.enough = max(self.enough, enough(share.held, share.size, use))
        if use.busy_percent is not None:
            self.busy_percent = max(self.busy_percent or 0, use.busy_percent)


class _Stored(msgspec.Struct):
    owners: list[OwnerUse] = []
    pods: str = ""
    """First digits of the UIDs of running pods, one after the other."""


class OwnerHistory:
    """The history, in memory.

    Args:
        text: what `text` returned for an earlier one; empty for a new history.

    Raises:
        msgspec.MsgspecError: the text is none of ours.
    """

    def __init__(self, text: str = "") -> None:
        stored = msgspec.json.decode(text, type=_Stored) if text else _Stored()
        self._owners = {each.key: each for each in stored.owners[:MAX_OWNERS]}
        digits = stored.pods[: UID_DIGITS * MAX_PODS]
        self._pods = {digits[at : at + UID_DIGITS]: 0 for at in range(0, len(digits), UID_DIGITS)}
        """When each counted pod was last seen, the longest ago first; 0 for those of an earlier history."""
        self._in_step: set[str] = set()

    @property
    def owners(self) -> Mapping[HistoryKey, OwnerUse]:
        """What is known of each owner."""
        return self._owners

    def add(  # noqa: PLR0913 - what is known of one share
        self, share: UsedShare, use: ShareUse, *, owner: str, uid: str, seconds: int, now: int
    ) -> None:
        """Add what a pod was measured to use of a share, watched for `seconds` since the last call for it.

        `owner` created the pod (`workload_text`), `uid` is the pod's, and `now` is in seconds since 1970.
        """
        found = self._owner((share.namespace, share.queue[:MAX_QUEUE_TEXT], owner, share.size))
        digits = uid[:UID_DIGITS].ljust(UID_DIGITS, "0")
        if digits not in self._in_step:
            self._in_step.add(digits)
            found.pods += self._pods.pop(digits, None) is None
            found.seconds += seconds
            self._pods[digits] = now
        found.add(share, use)
        found.held_seconds += seconds * share.held
        found.first_seen, found.last_seen = found.first_seen or now, now

    def end_step(self, now: int) -> None:
        """End one round over all pods: forget what was not seen for long."""
        self._in_step = set()
        self._pods = {each: at or now for each, at in self._pods.items() if now - (at or now) < POD_SECONDS}
        for each in list(self._pods)[: max(0, len(self._pods) - MAX_PODS)]:
            del self._pods[each]
        self._owners = {
            key: each for key, each in self._owners.items() if now - each.last_seen < KEPT_SECONDS
        }

    def _owner(self, key: HistoryKey) -> OwnerUse:
        if (found := self._owners.get(key)) is None:
            if len(self._owners) >= MAX_OWNERS:
                self._forget_one()
            found = self._owners[key] = OwnerUse(*key)
        return found

    def _forget_one(self) -> None:
        [(namespace, _)] = Counter(key[0] for key in self._owners).most_common(1)
        of_namespace = [each for each in self._owners.values() if each.namespace == namespace]
        del self._owners[min(of_namespace, key=lambda each: each.last_seen).key]

    def text(self) -> str:
        """Return the history as JSON."""
        owners = sorted(self._owners.values(), key=lambda each: each.key)
        return msgspec.json.encode(_Stored(owners, "".join(list(self._pods)[-MAX_PODS:]))).decode()


def workload_text(kind: str, name: str) -> str:
    """Return kind and name of what created a pod, cut to a bound.

    It is the same for all ReplicaSets of a Deployment, and all Jobs of a CronJob, by the names that
    Kubernetes' controllers give them.
    """
    above, suffix = _SUFFIXES.get(kind, ("", _HASH))
    start, dash, rest = name.rpartition("-")
    if above and start and suffix.fullmatch(dash + rest):
        kind, name = above, start
    text = f"{kind} {name}"[:MAX_OWNER_BYTES]
    while len(msgspec.json.encode(text)) > MAX_OWNER_BYTES:
        text = text[:-1]
    return text
