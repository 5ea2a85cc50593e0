"""Reports with an Event on the policies' ConfigMap that every webhook serves them."""

from __future__ import annotations

from datetime import datetime

from cluster.event_writer import post_event
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.policies.policy_events import read_config_map
from controller.policies.served_policies import FORGET_SECONDS, WebhookPolicies
from controller.policies.watched_policies import WatchedPolicies
from kube.events import event, event_name
from service.log import get_logger

REASON = "PoliciesInForce"
SECONDS_BETWEEN_CHECKS = 2.0
FIRST_CHECKS = int(FORGET_SECONDS / SECONDS_BETWEEN_CHECKS) + 1
"""Checks of a new leader until every webhook has reported what it serves."""
MAX_NAMED = 10
"""Webhooks that an Event lists."""


class PoliciesInForce:
    """Writes one Event for each change of the policies, when it is in force everywhere."""

    def __init__(self, api: ApiServer, policies: WatchedPolicies, served: WebhookPolicies) -> None:
        self._api = api
        self._policies = policies
        self._served = served
        self._checks_left = FIRST_CHECKS
        self._done: str | None = None
        self._log = get_logger("policies")

    async def check(self, namespace: str, config_map: str, now: datetime) -> None:
        """Check once what the webhooks serve."""
        digest, served = self._policies.digest, self._served.by_webhook()
        if self._checks_left:
            self._checks_left -= 1
            return
        is_everywhere = digest is not None and set(served.values()) == {digest}
        if digest is None or not is_everywhere or self._policies.problem is not None or digest == self._done:
            return
        try:
            await self._report(namespace, config_map, digest, list(served), now)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
        else:
            self._log.info("policies are in force at every webhook", digest=digest, webhooks=len(served))
        self._done = digest

    async def _report(
        self, namespace: str, config_map: str, digest: str, webhooks: list[str], now: datetime
    ) -> None:
        found = await read_config_map(self._api, namespace, config_map)
        named = ", ".join(webhooks[:MAX_NAMED])
        message = f"policies {digest} are in force at every webhook ({len(webhooks)}): {named}"
        # Includes the version: policies that come back are reported again, but not by each new leader.
        name = event_name(config_map, f"in force {found.version} {digest}")
        said = event(found.involved, REASON, message, name=name, now=now, kind="Normal")
        await post_event(self._api, said)
