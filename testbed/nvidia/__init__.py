"""NVIDIA's own software on machines without a GPU: built from its modules, over a library with NVML's ABI."""
