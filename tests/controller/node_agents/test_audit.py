"""The kubelet's books against the ledger: what differs, and what lasts."""

import pytest

from controller.node_agents.audit import Difference, Looks, differences
from ledger.view import GpuView, Holding, NodeView, Unlisted


def view(index, used, *, capacity=8, kind="holder", unlisted=None):
    gpu = GpuView(index, capacity, (Holding("t", "p", kind, used),), unlisted=unlisted)
    return NodeView("n", usable=True, slices_per_gpu=8, gpu_mib=None, product=None, gpus=(gpu,))


@pytest.mark.parametrize(
    ("seen", "held", "finished", "differs"),
    [
        (view(0, 4), 4, 0, False),
        (view(0, 4), 8, 0, True),
        (view(0, 4), 0, 0, True),
        (view(0, 4), 8, 4, False),
        (view(0, 4), 8, 3, True),
        (view(0, 4, kind="reservation"), 0, 0, False),
        (view(0, 4, kind="promised"), 0, 0, False),
        (view(0, 4, capacity=0), 0, 0, False),
        (view(0, 4, unlisted=Unlisted(2, 3, 2)), 6, 0, False),
        (view(0, 4, unlisted=Unlisted(2, 3, 2)), 4, 0, True),
    ],
)
def test_only_what_bound_pods_hold_is_compared(seen, held, finished, differs):
    assert bool(differences(seen, ((0, held, 1),), {0: finished})) == differs


def test_of_a_pool_the_sum_is_compared():
    assert differences(view(None, 6, capacity=16), ((0, 4, 1), (1, 2, 1)), {}) == []
    [found] = differences(view(None, 6, capacity=16), ((0, 4, 1), (1, 4, 1)), {})
    assert (found.index, found.kubelet, found.pods, found.ledger) == (None, 8, 2, 6)


def test_only_a_difference_that_stays_the_same_lasts():
    looks = Looks()
    other, same, busier = (Difference("n", 0, *each) for each in ((8, 2, 4), (6, 1, 4), (8, 2, 6)))
    lasting = [looks.lasting([each]) for each in (other, same, busier, same)]
    assert lasting == [[], [], [], [same]]
    assert looks.lasting([]) == []
    assert looks.lasting([same]) == []
