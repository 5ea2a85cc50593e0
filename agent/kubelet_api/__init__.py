"""The kubelet's gRPC interfaces: the parts of its protocols that the agent speaks, and their stubs.

`python -m agent.kubelet_api.generate` makes the stubs again.
"""
