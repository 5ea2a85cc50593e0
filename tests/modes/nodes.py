"""Nodes as modes read them."""

from modes.facts import NodeFact
from modes.fraction import Fraction
from modes.per_gpu import PerGpu
from modes.pooled import Pooled
from modes.resource_names import ResourceNames

SPLIT = NodeFact(name="split", gpus=((0, 8), (1, 8), (2, 8)), slices_per_gpu=8)
POOL = NodeFact(name="pool", pooled=32, pooled_gpus=4)
UNLABELLED = NodeFact(name="unlabelled", pooled=32)
EMPTY = NodeFact(name="empty")
STANDARD = ResourceNames()
HALF, PAIR = Fraction(4, 8), Fraction(16, 8)


def per_gpu(resource="nvidia.com/gpu-{index}", counted=STANDARD, allowed=()):
    return PerGpu(resource, counted, frozenset(allowed))


def pooled(resource="nvidia.com/gpu", counted=STANDARD, allowed=()):
    return Pooled(resource, counted, frozenset(allowed))
