"""The webhook's policies, by name: what became of the policy that a pod was admitted under."""

from __future__ import annotations

from pathlib import Path

from policies.loading.reload import LivePolicies, NoPoliciesError, Reload
from policies.model.schema import Policy
from service.log import get_logger


class NamedPolicies:
    """The policies of a directory, read again when it changes; a broken set leaves the last good one."""

    def __init__(self, directory: Path) -> None:
        self._log = get_logger("policies")
        self._live = LivePolicies(directory, self._reloaded, may_wait=True)

    def of(self, name: str) -> Policy | None:
        """Return the policy of a name; None where there is none, or no good set yet."""
        try:
            found = self._live.current.parts.policies.get(name)
        except NoPoliciesError:
            return None
        return found[0] if found is not None else None

    async def watch(self) -> None:
        """Follow the directory until cancelled."""
        await self._live.watch()

    def _reloaded(self, reload: Reload) -> None:
        if reload.error is not None:
            self._log.error("the policies on disk are not in force", error=str(reload.error))
        else:
            self._log.info("policies are in force", digest=reload.digest)
