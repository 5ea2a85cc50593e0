"""Tells what is wrong with the policies as Kubernetes Events on the ConfigMap that holds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec

from controller.event_writer import EventWriter
from controller.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.leader_loop import while_leading
from controller.leadership import Leadership
from controller.watched_policies import WatchedPolicies
from kube.events import event, event_name
from service.log import get_logger

REASON = "BrokenPolicies"
SECONDS_BETWEEN_LOOKS = 10.0
MAX_PROBLEM = 700
"""Characters of what is wrong; an API server takes 1,024 of a message."""
ADVICE = "mend the values and run helm upgrade; fraction-injector policy check lists every problem"


class PolicyEvents:
    """The leader's loop: one Event for each broken set, and one more for each hour that it stays."""

    def __init__(self, api: ApiServer, leadership: Leadership, policies: WatchedPolicies) -> None:
        self._api = api
        self._events = EventWriter(api)
        self._leadership = leadership
        self._policies = policies
        self._told: str | None = None
        self._log = get_logger("events")

    async def run(self, namespace: str, config_map: str, turned: Callable[[], None] = lambda: None) -> None:
        """Tell what is found while this replica leads; call `turned` after each check."""

        async def step() -> None:
            await self.check(namespace, config_map, datetime.now(UTC))

        await while_leading(self._leadership, step, SECONDS_BETWEEN_LOOKS, turned)

    async def check(self, namespace: str, config_map: str, now: datetime) -> None:
        """Look at the policies once."""
        problem = self._policies.problem
        if problem is None:
            self._told = None
            return
        name = _name(config_map, problem, now)
        if name == self._told:
            return
        try:
            involved, _ = await involved_config_map(self._api, namespace, config_map)
            await self._events.post(policy_event(name, involved, problem, now))
        except ApiError as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
            is_busy = error.status == HTTPStatus.TOO_MANY_REQUESTS
            if is_busy or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return
        except TRANSPORT_ERRORS as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
            return
        self._told = name


async def involved_config_map(api: ApiServer, namespace: str, config_map: str) -> tuple[dict[str, str], str]:
    """Name a ConfigMap as Events do, and its version; without a uid, `kubectl describe` would not show them.

    Raises:
        ApiError: the API server refuses.
        OSError, TimeoutError, aiohttp.ClientError: it does not answer.
    """
    reply = await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{config_map}")
    found = msgspec.json.decode(reply, type=_ConfigMap).metadata
    known = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": config_map}
    return {**known, "uid": found.uid}, found.resource_version


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata


def policy_event(name: str, involved: dict[str, str], problem: str, now: datetime) -> dict[str, Any]:
    """Return the Event on the ConfigMap."""
    shown = problem if len(problem) <= MAX_PROBLEM else f"{problem[:MAX_PROBLEM]}..."
    message = f"the policies are broken and not in force: {shown}\n{ADVICE}"
    return event(involved, REASON, message, name=name, now=now)


def _name(config_map: str, problem: str, now: datetime) -> str:
    """Return a name that is the same for one problem in one hour: an API server keeps Events for an hour."""
    return event_name(config_map, f"{now:%Y-%m-%dT%H} {problem}")
