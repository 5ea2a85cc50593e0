"""The controller: its ledger follows the cluster, and the webhook sends it placement requests.

| module or package | contents |
|---|---|
| process, options | the assembled process, and its command line |
| placement_api | the HTTP API for webhooks |
| leader_tasks | what only the leader runs: the loops of the packages below |
| certificates | issues and renews certificates |
| geometry | divides MIG cards |
| node_agents | taints nodes whose agent does not serve |
| use | keeps what pods used of their shares, and evicts those whose share is idle |
| publish | GpuLedgers, Events, metrics, and what the page shows besides the ledger |
| policies | the webhook's policies: watched, delivered, and which are served |
| pods | single pods: whether they wait, their demands, nodes with free GPUs for them |
| watch | watched nodes, pods, GpuNodes and ResourceSlices, and the ledger built from them |
"""

PUBLIC = (
    "certificates.loop",
    "certificates.rotate",
    "certificates.store",
    "options",
    "pods.pending_pod",
    "pods.pod_claim",
    "pods.pod_findings",
    "process",
    "publish.gpu_ledger",
    "publish.node_problems",
    "watch.agent_coverage",
    "watch.agent_readiness",
    "watch.card_claims",
    "watch.claim_cards",
    "watch.gpu_node",
    "watch.resources",
)
"""Modules that other packages import."""
