"""The webhook's policies: that under which a pod was admitted, and the last good set for new webhooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ledger.messages import PoliciesReply
from ledger.placement_request import Quota
from ledger.queue_names import names_of_keys
from policies.loading.policy_set import PolicySet
from policies.loading.reload import LivePolicies, NoPoliciesError, Reload
from policies.model.effective import EffectivePolicy, IdleRule
from service.log import get_logger

MAX_KINDS_OF_PODS = 2**14
"""Namespaces and queues whose policies are kept."""


class WatchedPolicies:
    """The policies of a directory, read again when it changes. A broken set leaves the last good one.

    The last good set is kept only in memory: a replica that starts on a broken set has none.
    """

    def __init__(self, directory: Path) -> None:
        self._log = get_logger("policies")
        self._live = LivePolicies(directory, self._reloaded, may_wait=True)
        self._digest: str | None = None
        """Digest of the set that the following are of."""
        self._quotas: tuple[Quota, ...] = ()
        self._of_pods: dict[tuple[str, tuple[str, ...]], EffectivePolicy] = {}

    @property
    def _current(self) -> PolicySet | None:
        """The set in force; None without a good one."""
        try:
            current = self._live.current
        except NoPoliciesError:
            return None
        if current.digest != self._digest:
            self._digest, self._quotas, self._of_pods = current.digest, current.quotas(), {}
        return current

    def quotas(self) -> tuple[Quota, ...]:
        """Return every quota in force; empty without a good set."""
        return self._quotas if self._current is not None else ()

    def quotas_of(self, namespace: str, queues: tuple[str, ...]) -> tuple[Quota, ...] | None:
        """Return the quotas of pods by their namespace and queue keys; None without a good set."""
        policy = self._policy_of(namespace, queues)
        return tuple([rule.quota for rule in policy.quotas]) if policy is not None else None

    def idle_rule(self, namespace: str, queues: tuple[str, ...]) -> IdleRule | None:
        """Return when shares of pods are idle, likewise; None if nothing says so, or without a good set."""
        policy = self._policy_of(namespace, queues)
        return policy.idle if policy is not None else None

    def _policy_of(self, namespace: str, queues: tuple[str, ...]) -> EffectivePolicy | None:
        current, key = self._current, (namespace, queues)
        if current is None:
            return None
        if len(self._of_pods) >= MAX_KINDS_OF_PODS:
            self._of_pods.clear()
        if key not in self._of_pods:
            self._of_pods[key] = current.resolve(namespace, *names_of_keys(queues))
        return self._of_pods[key]

    def last_good(self) -> PoliciesReply | None:
        """Return the files of the last good set; None if this process has had none."""
        digest, files = self._live.last.digest, self._live.good_files
        if digest is None or files is None:
            return None
        return PoliciesReply(digest, dict(files))

    @property
    def digest(self) -> str | None:
        """Digest of the set in force; None without one."""
        return self._live.last.digest

    @property
    def since(self) -> float | None:
        """When the set in force came into force, in Unix seconds; None without one."""
        return self._live.since

    def queues(self) -> tuple[Quota, ...]:
        """Return each queue in the policies in force, without its limits."""
        current = self._current
        return current.queues() if current is not None else ()

    @property
    def problem(self) -> str | None:
        """What is wrong with the files on disk, in lines; None if they are in force."""
        error = self._live.last.error
        return str(error) if error is not None else None

    @property
    def detail(self) -> str | None:
        """One line on a broken set; None if the files on disk are in force."""
        problem, digest = self.problem, self._live.last.digest
        if problem is None:
            return None
        given = (
            f"webhooks that start get {digest}" if digest else "there is none to give to webhooks that start"
        )
        return f"the policies on disk are broken ({problem.splitlines()[0]}): {given}"

    async def watch(self, heartbeat: Callable[[], None] = lambda: None) -> None:
        """Follow the directory until cancelled; call `heartbeat` after each check."""
        await self._live.watch(heartbeat=heartbeat)

    def _reloaded(self, reload: Reload) -> None:
        if reload.error is not None:
            self._log.error(
                "the policies on disk are not in force", kept=reload.digest, error=str(reload.error)
            )
        else:
            self._log.info("policies are in force", digest=reload.digest)
