"""Nodes, pods and asks as hypothesis draws them: few names and sizes, so that they meet."""

from hypothesis import strategies as st

from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from kube.scheduling import Taint
from modes.facts import UNLIMITED, NodeFact, PodFact
from modes.fraction import Fraction
from modes.units import POOL
from tests.ledger.cluster import request_of

GIB = 2**30
NODE_NAMES = [f"node-{number}" for number in range(5)]
KEYS = ["zone", "rank", "example.com/host"]
VALUES = ["a", "b", "1", "7", "-3", ""]
PRODUCTS = ["A100", "H100"]
OWNERS = ["", "", "train", "serve"]
TAINTS = [Taint("nvidia.com/gpu", "NoSchedule"), Taint("team", "NoExecute", "blue")]

fractions = st.sampled_from(
    [*(Fraction(slices, 8) for slices in (1, 2, 3, 4, 7, 8, 16, 32)), Fraction(1, 2), Fraction(4, 4)]
    + [Fraction(slices * parts, 8, parts) for slices, parts in ((1, 2), (4, 2), (3, 3), (7, 4), (2, 5))]
)


@st.composite
def nodes(draw: st.DrawFn) -> NodeFact:
    gpus = draw(st.integers(0, 5))
    per_gpu = draw(st.sampled_from([8, 8, 8, 8, 4, 2]))
    mib = draw(st.sampled_from([None, 16384, 16384, 16390, 81920]))
    labels = draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3))
    product = draw(st.sampled_from([None, *PRODUCTS]))
    labels |= {GPU_PRODUCT_LABEL: product} if product is not None else {}
    pooled_gpus = draw(st.sampled_from([0, 0, 0, 2, 4]))
    name = draw(st.sampled_from(NODE_NAMES))
    known = draw(st.sampled_from([0, 0, gpus]))
    return NodeFact(
        name=name,
        labels=labels if mib is None else labels | {GPU_MEMORY_LABEL: str(mib)},
        taints=tuple(draw(st.lists(st.sampled_from(TAINTS), max_size=2, unique=True))),
        usable=draw(st.sampled_from([True, True, True, False])),
        gpus=tuple((index, draw(st.sampled_from([per_gpu, per_gpu, 3, 0]))) for index in range(gpus)),
        slices_per_gpu=per_gpu if gpus else 0,
        pooled=pooled_gpus * 8,
        pooled_gpus=pooled_gpus,
        gpu_mib=mib,
        cards=tuple((index, draw(st.sampled_from([16384, 40960, 81920, 81920]))) for index in range(known)),
        card_models=tuple(draw(st.sampled_from(PRODUCTS)) for _ in range(known)),
        agent=draw(st.sampled_from(["unknown", "serving", "away", "missing"])),
        cpu_milli=draw(st.sampled_from([UNLIMITED, 4000, 16000, 64000])),
        memory_bytes=draw(st.sampled_from([UNLIMITED, 32 * GIB])),
        cordoned=frozenset(draw(st.lists(st.integers(0, 3), max_size=1))),
    )


@st.composite
def pods(draw: st.DrawFn) -> PodFact:
    gpus = draw(st.dictionaries(st.integers(0, 4), st.integers(1, 8), max_size=2))
    node = draw(st.sampled_from([None, *NODE_NAMES]))
    return PodFact(
        namespace=draw(st.sampled_from(["red", "blue"])),
        name=f"pod-{draw(st.integers(0, 8))}",
        node=node,
        is_over=draw(st.sampled_from([False, False, False, True])),
        takes=(*sorted(gpus.items()), *draw(st.sampled_from([(), (), (), ((POOL, 3),)]))),
        cpu_milli=draw(st.sampled_from([0, 500, 3000])),
        memory_bytes=draw(st.sampled_from([0, 4 * GIB])),
        queues=draw(st.sampled_from([(), ("q",), ("#id-1",), ("q", "#id-1")])),
        share=draw(st.sampled_from([None, None, (1, 2), (1, 5)])),
        asked_mib=draw(st.sampled_from([0, 0, 4096, 30000])),
        reservation=draw(st.sampled_from([None, "r-0", "r-1", "r-2"])),
        promised_node=None if node else draw(st.sampled_from([None, *NODE_NAMES])),
        memory_values=None if node else draw(st.sampled_from([None, ("16384",), ("16384", "16390")])),
        model=None if node else draw(st.sampled_from([None, None, *PRODUCTS])),
        owner=draw(st.sampled_from(OWNERS)),
    )


asks = st.builds(
    request_of,
    fraction=fractions,
    mode=st.sampled_from(["per-gpu", "per-gpu", "per-gpu", "pooled"]),
    namespace=st.sampled_from(["red", "blue"]),
    queues=st.sampled_from([(), ("q",), ("q", "#id-1")]),
    cpu_milli=st.sampled_from([0, 500, 3000, 9000]),
    memory_bytes=st.sampled_from([0, 4 * GIB, 30 * GIB]),
    owner=st.sampled_from(OWNERS),
    place=st.sampled_from(["pack", "spread"]),
    same_model=st.sampled_from([False, False, True]),
    writes_limits=st.sampled_from([True, True, False]),
)
