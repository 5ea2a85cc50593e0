"""What is expected steers pods that could go anywhere, and is forgotten in bounds."""

from kube.scheduling import Constraints, NodeSelectorTerm, Requirement, Taint, Toleration
from ledger.ledger import Ledger
from ledger.placement.expected_pods import MAX_KINDS
from ledger.placement.prices import PER_SLICE, Prices
from modes.fraction import Fraction
from tests.ledger.cluster import eighths, gpu_node, holder, ledger_of, placed, request_of

PRODUCT = "nvidia.com/gpu.product"
NAMES_A10 = Constraints({PRODUCT: "A10"})


def two_classes(**changes: object) -> Ledger:
    def kind(name: str) -> dict[str, str]:
        return {"nvidia.com/gpu.memory": "16384", PRODUCT: name}

    facts = [gpu_node(f"a{i}", 4, labels=kind("A10"), **changes) for i in range(4)]
    facts += [gpu_node(f"b{i}", 4, labels=kind("T4"), **changes) for i in range(4)]
    return ledger_of(*facts)


def arrive(ledger: Ledger, slices: int, count: int, **changes: object) -> list[str]:
    """Nodes that pods which go again at once are placed on."""
    nodes = []
    for _ in range(count):
        nodes.append(placed(ledger, eighths(slices, reservation="r", **changes)).node or "")
        ledger.release("r")
    return nodes


def ask_mib(ledger: Ledger, mib: int, count: int = 1) -> list[str]:
    """Nodes that pods with these MiB are placed on, one after the other; all stay."""
    fraction = Fraction.of_memory(mib, 8)
    requests = [request_of(fraction, reservation=f"mib-{mib}-{number}") for number in range(count)]
    return [placed(ledger, request).node or "" for request in requests]


def test_pods_that_would_go_anywhere_leave_the_class_that_others_name_to_those() -> None:
    ledger = two_classes()
    assert arrive(ledger, 4, 1) == ["a0"]
    arrive(ledger, 4, 60, constraints=NAMES_A10)
    assert arrive(ledger, 4, 1) == ["b0"]
    assert arrive(ledger, 4, 1, constraints=NAMES_A10) == ["a0"]


def test_before_pods_teach_otherwise_those_that_tolerate_a_taint_leave_the_other_nodes_free() -> None:
    taint = Taint("dedicated", "NoSchedule", "gpu")
    ledger = ledger_of(gpu_node("a", 4), gpu_node("b", 4, taints=(taint,)))
    tolerates = Constraints(tolerations=(Toleration("dedicated", "Equal", "gpu", "NoSchedule"),))
    arrive(ledger, 4, 1, constraints=tolerates)
    assert arrive(ledger, 4, 1, constraints=tolerates) == ["b"]


def prices_on(ledger: Ledger) -> Prices:
    (found,) = {each.prices for each in ledger._node_index.classes.values()}
    return found


def test_kinds_of_pods_are_bounded_and_room_is_made_for_new_ones() -> None:
    labels = {"nvidia.com/gpu.memory": "16384"}
    ledger = ledger_of(*(gpu_node(f"n{i}", 1, labels=labels | {"kind": str(i)}) for i in range(10)))
    for number in range(1, MAX_KINDS + 9):
        some = tuple([str(i) for i in range(10) if number >> i & 1])
        term = NodeSelectorTerm((Requirement("kind", "In", some),))
        arrive(ledger, 1, 1, constraints=Constraints(required_terms=(term,)))
    kinds = ledger._expected[8]._kinds
    assert len(kinds) <= MAX_KINDS
    arrive(ledger, 8, 400)
    assert len(kinds) < MAX_KINDS
    assert max(kind.count for kind in kinds.values()) > 5


def test_idle_gpus_of_one_node_are_kept_for_pods_of_several() -> None:
    ledger = ledger_of(gpu_node("a", 4), gpu_node("b", 4), holders=(holder("h", "b", (0, 8)),))
    arrive(ledger, 32, 60)
    assert arrive(ledger, 8, 1) == ["b"]


def test_small_requests_leave_gpus_with_much_memory_to_pods_that_fit_nowhere_else() -> None:
    small = [gpu_node(f"t4-{i}", 4, mib=16_384) for i in range(4)]
    large = [gpu_node(f"a100-{i}", 4, mib=81_920) for i in range(4)]
    ledger = ledger_of(*small, *large)
    ask_mib(ledger, 61_440, 12)
    ask_mib(ledger, 2_048, 100)
    assert all(ask_mib(ledger, 61_000, 4))


def test_an_absurd_request_does_not_teach_that_cpu_is_worthless() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    arrive(ledger, 1, 100, cpu_milli=10**15)
    assert min(prices_on(ledger).cpu) >= PER_SLICE * 8 // 64_000


def test_prices_are_renewed_while_no_node_takes_pods() -> None:
    ledger = ledger_of(gpu_node("a", 1))
    ask_mib(ledger, 10_240, 3)
    ledger.set_node(gpu_node("a", 1, usable=False))
    assert ask_mib(ledger, 5_120, 40) == [""] * 40
    assert ledger._expected[8]._capacity == 0
