"""What waiting pods demand of nodes and cards, read from the API server when needed, and cached for a while.

The watch does not keep them: the demands of all pods together would have no bound, as users write them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.pods.pending_pod import read_pod
from controller.pods.pod_claim import kinds_of, read_claim_of_pod
from controller.watch.resources import SeenPod
from kube.scheduling import Constraints
from ledger.why_claim import ShareClaim
from modes.facts import PodKey
from modes.gpu_kinds import EVERY_KIND, GpuKinds
from service.log import get_logger

KEPT_SECONDS = 15.0
"""The demands of a pod without a node hardly change, but Kubernetes may just be creating its claim."""
MAX_KEPT = 256
MAX_BYTES = 16 * 1024
"""Bytes of the demands of one pod; longer ones are not compared."""
READS_PER_SECOND = 16
"""Pods; the claim of one is a second request."""
READ_SECONDS = 2.0
"""Timeout of a read, because the viewer of the page waits for it."""
PAUSE_SECONDS = 10.0
"""Pause without reads after a failed one."""


@dataclass(frozen=True, slots=True)
class PodDemands:
    """What a waiting pod demands."""

    of_node: Constraints | None
    """None if they are too long to compare."""
    kinds: GpuKinds = EVERY_KIND
    """Kinds of GPU that it accepts."""
    claim: ShareClaim | None = None
    """The claim of its share, without the cards that it could take; None for a pod without one."""
    not_considered: str = ""
    """What keeps it off nodes and did not count when its GPU was chosen, in words."""


async def read_demands(api: ApiServer, pod: SeenPod) -> PodDemands | None:
    """Return what a waiting pod demands; None if it is gone, or waits no more.

    Raises:
        ApiError, ValueError, OSError, TimeoutError, aiohttp.ClientError: it cannot be read in READ_SECONDS.
    """
    key, injected, claim = pod.fact.key, pod.injected, None
    async with asyncio.timeout(READ_SECONDS):
        uid = injected.uid if injected is not None else None
        stored = await read_pod(api, key, uid, seconds=READ_SECONDS)
        if stored is None or stored.spec.node_name is not None:
            return None
        if pod.fact.claimed or (injected is not None and injected.has_claim):
            # Anyone can name a template like ours in another claim: then none is found.
            claim = await read_claim_of_pod(api, key[0], stored, _raise) or ShareClaim(state="unread")
    of_node = stored.constraints
    is_short = of_node.size() <= MAX_BYTES
    return PodDemands(of_node if is_short else None, kinds_of(stored), claim, stored.spec.not_considered)


def _raise(_what: str, error: Exception) -> NoReturn:
    raise error


class DemandsReader:
    """Reads what pods demand, at most some per second."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._kept: OrderedDict[PodKey, tuple[float, str, PodDemands | None]] = OrderedDict()
        """Expiry, uid of the pod, and what was found; None if that could not be decoded."""
        self._second = 0.0
        """End of the current second, or pause."""
        self._reads = 0
        """Reads in the current second."""
        self._log = get_logger("pod demands")

    async def of(self, pod: SeenPod) -> PodDemands | None:
        """Return a pod's demands; None if it is gone, cannot be read, or too many were read this second."""
        now, key = self._clock(), pod.fact.key
        uid = pod.injected.uid if pod.injected is not None else ""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now and kept[1] == uid:
            return kept[2]
        if not self._may_read(now):
            return None
        try:
            found = await read_demands(self._api, pod)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._second, self._reads = self._clock() + PAUSE_SECONDS, READS_PER_SECOND
            self._log.warning("a waiting pod cannot be read", pod=key[1], error=str(error))
            return None
        except ValueError as error:
            self._log.warning("a waiting pod cannot be decoded", pod=key[1], error=str(error))
            self._keep(key, (now + KEPT_SECONDS, uid, None))
            return None
        if found is not None:
            self._keep(key, (now + KEPT_SECONDS, uid, found))
        return found

    def _may_read(self, now: float) -> bool:
        if now >= self._second:
            self._second, self._reads = now + 1.0, 0
        self._reads += 1
        return self._reads <= READS_PER_SECOND

    def _keep(self, key: PodKey, kept: tuple[float, str, PodDemands | None]) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
