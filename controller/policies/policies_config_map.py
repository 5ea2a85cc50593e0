"""The ConfigMap of the policies: Events on it when they are broken, and its delivery to running pods."""

from __future__ import annotations

from datetime import datetime

import msgspec

from cluster.event_writer import EventWriter
from cluster.kube_client import METADATA_ONLY, TRANSPORT_ERRORS, ApiError, ApiServer
from cluster.object_reader import StoredObject
from cluster.pod_touch import PodTouch
from controller.policies.watched_policies import WatchedPolicies
from kube.events import event, event_name
from kube.names import POLICIES_ANNOTATION
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


class PolicyDelivery:
    """Annotates the pods that mount the ConfigMap after it changed: the kubelet needs a minute or more."""

    def __init__(self, api: ApiServer, namespace: str, config_map: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{config_map}"
        self._touch = PodTouch(api, namespace, ("ConfigMap", config_map), POLICIES_ANNOTATION)
        self._seen: str | None = None
        self._delivered: str | None = None
        self._is_logged = False
        self._log = get_logger("policies")

    async def check(self) -> None:
        """Read the ConfigMap once; annotate pods if the check before saw the same new version.

        Kubelets watch the ConfigMap like this replica. A kubelet that has not seen the change yet would mount
        the old version.
        """
        try:
            cached = {"resourceVersion": "0"}
            reply = await self._api.request("GET", self._path, query=cached, accept=METADATA_ONLY)
            version = msgspec.json.decode(reply, type=StoredObject).metadata.resource_version
            if version == self._seen and version != self._delivered:
                await self._touch.mark(version)
                self._delivered = version
            self._seen = version
        except (ApiError, *TRANSPORT_ERRORS) as error:
            if not self._is_logged:
                text = "pods are not annotated: they get changed policies in a minute or two"
                self._log.warning(text, error=str(error))
            self._is_logged = True
        else:
            self._is_logged = False
