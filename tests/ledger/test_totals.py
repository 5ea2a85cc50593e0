"""Sums that are kept while nodes change, compared with those of the whole view."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.ledger import Ledger
from ledger.ledger_writer import MAX_ENDED_AT_ONCE
from ledger.totals import Totals
from tests.effort import examples
from tests.ledger.cluster import eighths, gpu_node, ledger_of
from tests.ledger.strategies import NODE_NAMES, nodes, pods


def summed(ledger: Ledger) -> Totals:
    gpus = [gpu for node in ledger.view().nodes for gpu in node.gpus]
    return Totals(
        sum(gpu.index is not None for gpu in gpus),
        sum(gpu.capacity for gpu in gpus),
        sum(gpu.used for gpu in gpus),
        sum(gpu.free for gpu in gpus),
        sum(gpu.over for gpu in gpus),
    )


@given(
    st.lists(nodes() | pods() | st.sampled_from(NODE_NAMES) | st.integers(0, 8).map(lambda i: f"red/pod-{i}"))
)
@settings(max_examples=examples(200))
def test_running_totals_are_the_sums_of_the_view_whatever_happened(events: list[object]) -> None:
    ledger = Ledger()
    for event in events:
        match event:
            case str() if "/" in event:
                ledger.remove_pod(event)
            case str():
                ledger.remove_node(event)
            case _:
                (ledger.set_pod if hasattr(event, "namespace") else ledger.set_node)(event)
        assert ledger.totals() == summed(ledger)
        assert ledger.pending_slices() == sum(waiting.slices for waiting in ledger.pending())


def test_reservations_that_are_over_end_a_bounded_number_at_a_time() -> None:
    ledger = ledger_of(*[gpu_node(f"n{i}", 8) for i in range(40)])
    count = MAX_ENDED_AT_ONCE + 10
    for number in range(count):
        ledger.place(eighths(8, namespace=f"ns{number}", reservation=f"r{number}"), 0.0)
    assert ledger.totals().used == 8 * count
    assert ledger.expire(100.0)
    assert not ledger.expire(100.0)
    assert ledger.totals().used == 0
