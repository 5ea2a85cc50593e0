"""Reports broken policies with Events on their ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.event_writer import post_event
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from controller.policies.watched_policies import WatchedPolicies
from kube.events import event, event_name
from service.log import get_logger

REASON = "BrokenPolicies"
MAX_PROBLEM = 700
"""Characters of a problem; an API server accepts 1,024 in a message."""
CHECK = "fraction-injector check lists every problem"
ADVICE = f"fix the values and run helm upgrade; {CHECK}"
EDITED = (
    "the ConfigMap was changed by {manager}, so the values may be right: copy the change into them and run"
    f" helm upgrade --force-conflicts (Helm 3: without that option), which restores them; {CHECK}"
)
_BY_HAND = ("kubectl-edit", "kubectl-patch", "kubectl-replace", "kubectl-create", "kubectl-set")
"""Field managers of commands with which a person changes an object outside of its chart."""


class PolicyEvents:
    """Writes one Event for each broken set, repeated every hour."""

    def __init__(self, api: ApiServer, policies: WatchedPolicies) -> None:
        self._api = api
        self._policies = policies
        self._reported: str | None = None
        self._log = get_logger("events")

    async def check(self, namespace: str, config_map: str, now: datetime) -> None:
        """Check once whether the policies are broken."""
        problem = self._policies.problem
        if problem is None:
            self._reported = None
            return
        name = _name(config_map, problem, now)
        if name == self._reported:
            return
        try:
            found = await read_config_map(self._api, namespace, config_map)
            await post_event(self._api, policy_event(name, found, problem, now))
        except ApiError as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
            is_busy = error.status == HTTPStatus.TOO_MANY_REQUESTS
            if is_busy or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return
        except TRANSPORT_ERRORS as error:
            self._log.warning("an Event is lost", reason=REASON, error=str(error))
            return
        self._reported = name


@dataclass(frozen=True, slots=True)
class PoliciesConfigMap:
    """The policies' ConfigMap, as far as Events on it need it."""

    involved: dict[str, str]
    """The object reference; without a uid, `kubectl describe` would not show the Events."""
    version: str
    edited_by: str | None
    """Field manager of the command by which a person changed the data; None if a program did."""


async def read_config_map(api: ApiServer, namespace: str, config_map: str) -> PoliciesConfigMap:
    """Read the ConfigMap of the policies.

    Raises:
        ApiError: the API server rejects the request.
        OSError, TimeoutError, aiohttp.ClientError: it does not answer.
    """
    reply = await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{config_map}")
    found = msgspec.json.decode(reply, type=_ConfigMap).metadata
    known = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": config_map}
    editors = (each.manager for each in found.managed_fields if each.manager in _BY_HAND and each.fields.data)
    return PoliciesConfigMap({**known, "uid": found.uid}, found.resource_version, next(editors, None))


class _Fields(msgspec.Struct):
    data: dict[str, Any] = msgspec.field(default_factory=dict, name="f:data")


class _ManagedFields(msgspec.Struct, rename="camel"):
    manager: str = ""
    fields: _Fields = msgspec.field(default_factory=_Fields, name="fieldsV1")


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str = ""
    managed_fields: list[_ManagedFields] = []


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata


def policy_event(name: str, found: PoliciesConfigMap, problem: str, now: datetime) -> dict[str, Any]:
    """Return the Event on the ConfigMap that says what is wrong."""
    shown = problem if len(problem) <= MAX_PROBLEM else f"{problem[:MAX_PROBLEM]}..."
    advice = EDITED.format(manager=found.edited_by) if found.edited_by is not None else ADVICE
    message = f"the policies are broken and not in force: {shown}\n{advice}"
    return event(found.involved, REASON, message, name=name, now=now)


def _name(config_map: str, problem: str, now: datetime) -> str:
    """Return the same name for a problem within one hour, as long as an API server keeps Events."""
    return event_name(config_map, f"{now:%Y-%m-%dT%H} {problem}")
