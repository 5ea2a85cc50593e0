"""What waiting pods demand of nodes and cards, read from the API server when needed, and cached for a while.

The watch does not keep them: the demands of all pods together would have no bound, as users write them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, NoReturn, TypeVar

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.pods.pending_pod import StoredPod, read_pod, read_pod_json
from controller.pods.pod_claim import kinds_of, read_claim_of_pod
from controller.watch.resources import SeenPod
from kube.scheduling import Constraints
from ledger.why_claim import ShareClaim
from modes.facts import PodKey
from modes.gpu_kinds import GpuKinds
from service.log import get_logger

KEPT_SECONDS = 60.0
"""For a pod without a node only tolerations can be added, and only while it has a scheduling gate do its
demands change."""
UNSETTLED_SECONDS = 10.0
"""The same for a claim that Kubernetes has not created yet, or that is gone."""
MAX_KEPT = 256
MAX_BYTES = 16 * 1024
"""Bytes of the demands of one pod; longer ones are not compared."""
TooLong = Literal["too long"]
READS_PER_SECOND = 16
"""Pods; the claim of one is a second request."""
READ_SECONDS = 2.0
"""Timeout of a read, because the viewer of the page waits for it."""
PAUSE_SECONDS = 10.0
"""Pause without reads after a failed one."""
_UNSETTLED = frozenset({"not created", "deleted", "no template"})
_Found = TypeVar("_Found")


def demands_of(stored: StoredPod) -> Constraints | TooLong:
    """Return a pod's demands, if they are not too long to compare."""
    found = stored.constraints
    return found if found.size() <= MAX_BYTES else "too long"


@dataclass(frozen=True, slots=True)
class ClaimDemands:
    """What a pod in mode dra demands."""

    claim: ShareClaim
    """The claim of its share, without the cards that it could take."""
    kinds: GpuKinds
    """Kinds of GPU that the pod accepts."""
    of_node: Constraints | TooLong


class _PodReads(Generic[_Found]):
    """Reads pods, at most some per second."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._kept: OrderedDict[PodKey, tuple[float, str, _Found | None]] = OrderedDict()
        """Expiry, uid of the pod, and what was found; None if that could not be decoded."""
        self._second = 0.0
        """End of the current second, or pause."""
        self._reads = 0
        """Reads in the current second."""
        self._log = get_logger("pod demands")

    async def of(self, pod: SeenPod) -> _Found | None:
        """Return a pod's demands; None if it is gone, cannot be read, or too many were read this second."""
        now, key = self._clock(), pod.fact.key
        uid = pod.injected.uid if pod.injected is not None else ""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now and kept[1] == uid:
            return kept[2]
        if not self._may_read(now):
            return None
        try:
            found = await self._read(key, uid or None)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._second, self._reads = self._clock() + PAUSE_SECONDS, READS_PER_SECOND
            self._log.warning("a waiting pod cannot be read", pod=key[1], error=str(error))
            return None
        except (ValueError, msgspec.MsgspecError) as error:
            self._log.warning("a waiting pod cannot be decoded", pod=key[1], error=str(error))
            self._keep(key, (now + KEPT_SECONDS, uid, None))
            return None
        if found is not None:
            self._keep(key, (now + self._seconds(found), uid, found))
        return found

    async def _read(self, key: PodKey, uid: str | None) -> _Found | None:
        raise NotImplementedError

    def _seconds(self, _found: _Found) -> float:
        return KEPT_SECONDS

    def _may_read(self, now: float) -> bool:
        if now >= self._second:
            self._second, self._reads = now + 1.0, 0
        self._reads += 1
        return self._reads <= READS_PER_SECOND

    def _keep(self, key: PodKey, kept: tuple[float, str, _Found | None]) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


class PodDemands(_PodReads[Constraints | TooLong]):
    """Reads the demands of pods on their nodes, at most some per second."""

    async def _read(self, key: PodKey, uid: str | None) -> Constraints | TooLong | None:
        stored = await read_pod(self._api, key, uid, seconds=READ_SECONDS)
        return demands_of(stored) if stored is not None else None


class PodClaims(_PodReads[ClaimDemands]):
    """Reads the claims of pods, and what else they demand, at most some per second."""

    async def _read(self, key: PodKey, uid: str | None) -> ClaimDemands | None:
        async with asyncio.timeout(READ_SECONDS):
            read = await read_pod_json(self._api, key, uid, seconds=READ_SECONDS)
            if read is None:
                return None
            stored, data = read
            claim = await read_claim_of_pod(self._api, key[0], data, _raise)
        # Anyone can name a template like ours in another claim. It is kept, so that it delays no other pod.
        claim = claim or ShareClaim(state="unread")
        return ClaimDemands(claim, kinds_of(data), demands_of(stored))

    def _seconds(self, found: ClaimDemands) -> float:
        return UNSETTLED_SECONDS if found.claim.state in _UNSETTLED else KEPT_SECONDS


def _raise(_what: str, error: Exception) -> NoReturn:
    raise error
