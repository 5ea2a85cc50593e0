"""What commands read of pods, quotas and policies from the API server, with the rights of their user.

| modules | hold |
|---|---|
| why, pod_details, pod_groups | one pod, or a workload whose pods are denied, and what it waits for |
| uninjected | pods that use GPUs without an injection |
| quota_report | what namespaces and queues have of their quotas |
| policy_status, stored_policies | which policies each process serves, and which are stored |
"""

PUBLIC = (
    "policy_status",
    "quota_report",
    "stored_policies",
    "uninjected",
    "why",
)
"""Modules that other packages import."""
