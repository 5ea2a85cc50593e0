"""Reports with an Event on the policies' ConfigMap that every webhook serves them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from cluster.event_writer import EventWriter
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.leader_loop import Leads, while_leading
from controller.policies.policy_events import read_config_map
from controller.policies.served_policies import FORGET_SECONDS, WebhookPolicies
from controller.policies.watched_policies import WatchedPolicies
from kube.events import event, event_name
from service.log import get_logger

REASON = "PoliciesInForce"
SECONDS_BETWEEN_LOOKS = 2.0
FIRST_LOOKS = int(FORGET_SECONDS / SECONDS_BETWEEN_LOOKS) + 1
"""Checks of a new leader until every webhook has reported what it serves."""
MAX_NAMED = 10
"""Webhooks that an Event lists."""


class PoliciesInForce:
    """The leader's loop: one Event for each change of the policies, when it is in force everywhere."""

    def __init__(
        self, api: ApiServer, leadership: Leads, policies: WatchedPolicies, served: WebhookPolicies
    ) -> None:
        self._api = api
        self._events = EventWriter(api)
        self._leadership = leadership
        self._policies = policies
        self._served = served
        self._looks_left = FIRST_LOOKS
        self._told: str | None = None
        self._log = get_logger("policies")

    async def run(
        self, namespace: str, config_map: str, heartbeat: Callable[[], None] = lambda: None
    ) -> None:
        """Report while this replica leads; call `heartbeat` after each check."""

        async def step() -> None:
            await self.check(namespace, config_map, datetime.now(UTC))

        await while_leading(self._leadership, step, SECONDS_BETWEEN_LOOKS, heartbeat)

    async def check(self, namespace: str, config_map: str, now: datetime) -> None:
        """Check once what the webhooks serve."""
        digest, served = self._policies.digest, self._served.by_webhook()
        if self._looks_left:
            self._looks_left -= 1
            return
        is_everywhere = digest is not None and set(served.values()) == {digest}
        if digest is None or not is_everywhere or self._policies.problem is not None or digest == self._told:
            return
        try:
            await self._tell(namespace, config_map, digest, list(served), now)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
        else:
            self._log.info("policies are in force at every webhook", digest=digest, webhooks=len(served))
        self._told = digest

    async def _tell(
        self, namespace: str, config_map: str, digest: str, webhooks: list[str], now: datetime
    ) -> None:
        found = await read_config_map(self._api, namespace, config_map)
        named = ", ".join(webhooks[:MAX_NAMED])
        message = f"policies {digest} are in force at every webhook ({len(webhooks)}): {named}"
        # Includes the version: policies that come back are reported again, but not by each new leader.
        name = event_name(config_map, f"in force {found.version} {digest}")
        await self._events.post(event(found.involved, REASON, message, name=name, now=now, kind="Normal"))
