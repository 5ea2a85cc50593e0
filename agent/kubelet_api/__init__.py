"""The kubelet's gRPC interfaces: the parts of its protocols that the agent speaks, and their messages.

`python -m testbed.kubelet_messages` makes the messages again.
"""
