"""Client code for the Kubernetes API server, for the controller and for commands.

| modules | contents |
|---|---|
| endpoint, kubeconfig | where the API server is, and the credentials of its user |
| kube_client | authenticated requests and streams |
| listing, informer, object_reader, watched_resource | lists and watches of one resource, decoded to items |
| watch_health | whether a watch works, and up to when its state is complete |
| leadership, leader_loop | the Lease, and the loop of tasks that only the leader runs |
| event_writer, pod_touch | Events, and annotations that make the kubelet refresh a pod's mounts |
"""

PUBLIC = (
    "endpoint",
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
