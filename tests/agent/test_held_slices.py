"""What is held of each GPU by the kubelet's books."""

from agent.gpu import Gpu
from agent.held_slices import held_of
from agent.kubelet import Holder
from agent.state import Held

GPUS = [Gpu(0, "GPU-a", "A100", 40960), Gpu(1, "GPU-b", "A100", 40960), Gpu(2, "GPU-c", "A100", 40960)]


def holder(pod, container, *ids):
    return Holder("team", pod, container, (("nvidia.com/gpu-0", ids),))


def test_slices_and_pods_are_counted_by_gpu_whatever_else_is_held():
    found = held_of(
        [
            holder("p", "one", "GPU-a::0", "GPU-a::1"),
            holder("p", "two", "GPU-a::2", "GPU-b::7"),
            holder("q", "one", "GPU-b::0", "nic-0", "GPU-gone::0"),
        ],
        GPUS,
    )
    assert found == {"GPU-a": Held(3, 1), "GPU-b": Held(2, 2), "GPU-c": Held()}
