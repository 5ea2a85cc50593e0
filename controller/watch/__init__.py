"""Watches of nodes, pods, GpuNodes and ResourceSlices, and the ledger built from them."""
