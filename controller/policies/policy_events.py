"""Reports broken policies with Events on their ConfigMap."""

from __future__ import annotations

from datetime import datetime

import msgspec

from cluster.event_writer import EventWriter
from cluster.kube_client import TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.object_reader import StoredObject
from controller.policies.watched_policies import WatchedPolicies
from kube.events import event, event_name
from service.log import get_logger

REASON = "BrokenPolicies"
MAX_PROBLEM = 700
"""Characters of a problem; an API server accepts 1,024 in a message."""
ADVICE = (
    "fix the values and run helm upgrade; if the ConfigMap was edited, copy the change into the values first,"
    " and add --force-conflicts (Helm 3: without that option); fraction-injector check lists every problem"
)


class PolicyEvents:
    """Writes one Event for each broken set, repeated every hour."""

    def __init__(self, api: ApiServer, events: EventWriter, policies: WatchedPolicies) -> None:
        self._api = api
        self._events = events
        self._policies = policies
        self._reported: str | None = None
        """Name of the Event on what is broken now."""
        self._log = get_logger("events")

    async def check(self, namespace: str, config_map: str, now: datetime) -> None:
        """Check once whether the policies are broken."""
        problem = self._policies.problem
        # The same for a problem within one hour, as long as an API server keeps Events.
        name = event_name(config_map, f"{now:%Y-%m-%dT%H} {problem}") if problem is not None else None
        if problem is None or name is None or name == self._reported:
            self._reported = name
            return
        try:
            found = await self._api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{config_map}")
        except (ApiError, *TRANSPORT_ERRORS) as error:
            self._log.warning("an Event waits", reason=REASON, error=str(error))
            return
        # Without the uid, `kubectl describe` would not show the Event.
        known = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": config_map}
        involved = {**known, "uid": msgspec.json.decode(found, type=StoredObject).metadata.uid}
        shown = problem if len(problem) <= MAX_PROBLEM else f"{problem[:MAX_PROBLEM]}..."
        message = f"the policies are broken and not in force: {shown}\n{ADVICE}"
        self._events.write(event(involved, REASON, message, name=name, now=now))
        self._reported = name
