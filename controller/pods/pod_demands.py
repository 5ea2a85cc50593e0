"""The demands of waiting pods on their nodes, read from the API server when needed, and cached for a while.

The watch does not keep them: the demands of all pods together would have no bound, as users write them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import msgspec

from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.pods.pending_pod import StoredPod, read_pod
from controller.watch.resources import SeenPod
from kube.scheduling import Constraints
from service.log import get_logger

KEPT_SECONDS = 60.0
"""For a pod without a node only tolerations can be added, and only while it has a scheduling gate do its
demands change."""
MAX_KEPT = 256
MAX_BYTES = 16 * 1024
"""Bytes of the demands of one pod; longer ones are not compared."""
TooLong = Literal["too long"]
READS_PER_SECOND = 16
READ_SECONDS = 2.0
"""Timeout of a read, because the viewer of the page waits for it."""
PAUSE_SECONDS = 10.0
"""Pause without reads after a failed one."""
_Kept = tuple[float, str, Constraints | TooLong | None]
"""Expiry, uid of the pod, and its demands; None if the pod could not be decoded."""


def demands_of(stored: StoredPod) -> Constraints | TooLong:
    """Return a pod's demands, if they are not too long to compare."""
    found = stored.constraints
    return found if found.size() <= MAX_BYTES else "too long"


class PodDemands:
    """Reads pods, at most some per second."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._second = 0.0
        """End of the current second, or pause."""
        self._reads = 0
        """Reads in the current second."""
        self._log = get_logger("pod demands")

    async def of(self, pod: SeenPod) -> Constraints | TooLong | None:
        """Return a pod's demands; None if it is gone, cannot be read, or too many were read this second."""
        now, key = self._clock(), pod.fact.key
        uid = pod.injected.uid if pod.injected is not None else ""
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now and kept[1] == uid:
            return kept[2]
        if not self._may_read(now):
            return None
        try:
            stored = await read_pod(self._api, key, uid or None, seconds=READ_SECONDS)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._second, self._reads = self._clock() + PAUSE_SECONDS, READS_PER_SECOND
            self._log.warning("a waiting pod cannot be read", pod=key[1], error=str(error))
            return None
        except msgspec.MsgspecError as error:
            self._log.warning("a waiting pod cannot be decoded", pod=key[1], error=str(error))
            self._keep(key, (now + KEPT_SECONDS, uid, None))
            return None
        if stored is None:
            return None
        found = demands_of(stored)
        self._keep(key, (now + KEPT_SECONDS, uid, found))
        return found

    def _may_read(self, now: float) -> bool:
        if now >= self._second:
            self._second, self._reads = now + 1.0, 0
        self._reads += 1
        return self._reads <= READS_PER_SECOND

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
