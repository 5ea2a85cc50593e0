"""The kubelet's gRPC interfaces: the parts of its protocols that the agent speaks, and their messages.

`python -m agent.kubelet_api.generate` makes the messages again.
"""
