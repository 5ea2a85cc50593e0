"""The companion: the ledger follows the cluster, and the webhook asks it."""
