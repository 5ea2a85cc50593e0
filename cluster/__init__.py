"""Talks to the Kubernetes API server, for the controller and for commands, whatever they are about.

| modules | hold |
|---|---|
| kube_client | requests and streams, authenticated |
| listing, informer, object_reader, watched_resource | lists and watches of one resource, made into items |
| watch_health | whether a watch works, and up to when what is known is complete |
| leadership, leader_loop | the Lease, and the loop of tasks that only the leader runs |
| event_writer, pod_touch | Events, and annotations that have the kubelet look at a pod's mounts |
"""

PUBLIC = (
    "event_writer",
    "informer",
    "kube_client",
    "leader_loop",
    "leadership",
    "listing",
    "object_reader",
    "pod_touch",
    "watch_health",
    "watched_resource",
)
"""Modules that other packages import."""
