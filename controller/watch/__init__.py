"""What is watched, and the ledger of it: nodes, pods, GpuNodes and ResourceSlices."""
