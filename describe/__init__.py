"""What commands read about pods, quotas and policies from the API server, with the rights of their user.

| modules | contents |
|---|---|
| why, pod_details | one pod, or a workload of denied pods, and what it waits for |
| offered_cards | cards that DRA drivers offer, and what claims hold of them |
| pod_shares | the pods of a namespace, with their shares |
| uninjected | pods that use GPUs without an injection |
| use | what pods use of their shares, now and over weeks |
| quota_report | the policies in the ConfigMap, and usage of quotas by namespaces and queues |
"""

PUBLIC = (
    "pod_shares",
    "quota_report",
    "uninjected",
    "use",
    "why",
)
"""Modules that other packages import."""
