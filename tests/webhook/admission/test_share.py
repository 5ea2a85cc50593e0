"""What every kind of request gets: no less than was asked, under a slice more, and limited to it."""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import by_turns, examples
from tests.ledger.cluster import gpu_node
from tests.webhook.support import container, policies
from tests.webhook.support.gpu_pods import (
    asking_memory,
    limits,
    memory_limits,
    on_gpus,
    pooled_node,
    sharing,
    webhook_of,
)

FRACTIONS = ["0.125", "0.2", "0.250", "0.33", "0.500", "0.625", "0.75", "0.875", "0.95"]
MIB = st.integers(1, 150_000)


@dataclass
class Asked:
    """A pod, and what it asks for: texts by container, each of so many GPUs."""

    pod: dict
    texts: dict[str, str]
    gpus: int = 1


@dataclass
class Cluster:
    """Nodes of four cards each, and the policy."""

    mode: str
    per_gpu: int
    reserve: int
    cards: list[int]
    containers: str

    def webhook(self):
        table = {*FRACTIONS, *(_decimal(size, self.per_gpu) for size in range(1, self.per_gpu))}
        slices = ", ".join(f'"{text}": {-(-Fraction(text) * self.per_gpu // 1)}' for text in sorted(table))
        policy = policies(
            f"slicesPerGpu: {self.per_gpu}\nresources: {{mode: {self.mode}}}\n"
            f"containers: {self.containers}\nfractions: {{{slices}}}\n"
            f"memory: {{allowed: true, reserveMiB: {self.reserve}}}\n"
        )
        return webhook_of(*map(self._node, self.cards), policy_set=policy)

    def _node(self, mib):
        if self.mode == "pooled":
            return pooled_node(f"n{mib}", mib=mib, gpus=4, pooled=4 * self.per_gpu)
        gpus = tuple((index, self.per_gpu) for index in range(4))
        return gpu_node(f"n{mib}", mib=mib, gpus=gpus, slices_per_gpu=self.per_gpu)


CLUSTERS = st.builds(
    Cluster,
    st.sampled_from(["per-gpu", "pooled"]),
    st.sampled_from([2, 4, 8, 16]),
    st.integers(0, 500),
    st.lists(MIB, min_size=1, max_size=5, unique=True),
    st.sampled_from(["same-gpu", "any-gpu"]),
)


def fraction_of(draw, _per_gpu):
    text = draw(st.sampled_from(FRACTIONS))
    gpus = draw(st.integers(1, 4))
    return Asked(on_gpus(str(gpus), text), {"train": text}, gpus)


def memory_of(draw, _per_gpu):
    text, gpus = f"{draw(MIB)}Mi", draw(st.integers(1, 4))
    found = asking_memory(text)
    found["metadata"]["annotations"] = {"clearml-injector/gpus": str(gpus)}
    return Asked(found, {"train": text}, gpus)


def shared_fraction_of(draw, per_gpu):
    sizes, left = [], per_gpu - 1
    while left and len(sizes) < 4:
        sizes.append(draw(st.integers(1, left)))
        left -= sizes[-1]
    texts = {f"c{at}": _decimal(size, per_gpu) for at, size in enumerate(sizes)}
    return Asked(_sharing(texts, _decimal(sum(sizes), per_gpu)), texts)


def shared_memory_of(draw, _per_gpu):
    each = draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=4))
    texts = {f"c{at}": f"{mib}Mi" for at, mib in enumerate(each)}
    return Asked(_sharing(texts, f"{sum(each)}Mi"), texts)


def _sharing(texts, label):
    text = ",".join(f"{name}={amount}" for name, amount in texts.items())
    return sharing(text, label, [container(name) for name in texts])


def _decimal(size, per_gpu):
    return f"{size / per_gpu:.4f}"


KINDS = st.sampled_from([fraction_of, memory_of, shared_fraction_of, shared_memory_of])


@given(st.data(), KINDS, CLUSTERS)
@settings(max_examples=examples(by_turns("webhook", usual=200, full=600)), deadline=None)
def test_each_container_gets_what_it_asks_for_and_less_than_a_slice_more(data, kind, cluster):
    asked = kind(data.draw, cluster.per_gpu)
    decided = cluster.webhook().decide(asked.pod)
    if not decided.allowed:
        assert decided.code in expected_denials(asked, cluster)
        return
    assert "gpus-not-allowed" not in expected_denials(asked, cluster)
    card = decided.outcome.injection.placement.gpu_mib
    assert card in cluster.cards
    granted = {name: grant(decided, name, cluster.mode, asked) for name in asked.texts}
    for name, text in asked.texts.items():
        check(text, *granted[name], card, cluster)
    fraction = asked.pod["metadata"]["labels"].get("clearml-injector/fraction")
    if fraction is not None:
        limited = sum(limit + cluster.reserve for _, limit in granted.values())
        assert limited <= Fraction(fraction) * card


def grant(decided, name, mode, asked):
    """The slices and the MiB of a container, on each of its GPUs."""
    amounts, variables = limits(decided, name), memory_limits(decided, name)
    assert len(amounts) == len(variables) == (asked.gpus if mode == "per-gpu" else 1)
    [slices], [limit] = {*amounts.values()}, {*variables.values()}
    return int(slices), int(limit.removesuffix("m"))


def check(text, slices, limit, card, cluster):
    """Slices hold what was asked, and one less would not; the limit is what was asked."""
    if text.endswith("Mi"):
        asked = Fraction(int(text[:-2]) + cluster.reserve)
        assert limit == int(text[:-2])
    else:
        asked = Fraction(text) * card
        # Rounded down, once for the pod and once more for a container's part of it.
        assert 0 <= asked - (limit + cluster.reserve) < 2
    slice_mib = Fraction(card, cluster.per_gpu)
    assert 0 <= slices * slice_mib - asked < slice_mib


def expected_denials(asked, cluster):
    """Codes with which a request may be denied; none where some card can hold it."""
    if cluster.mode == "pooled" and asked.gpus > 1:
        return {"gpus-not-allowed"}
    mib = [int(text[:-2]) + cluster.reserve for text in asked.texts.values() if text.endswith("Mi")]
    if not mib:
        smallest = min(int(Fraction(text) * min(cluster.cards)) for text in asked.texts.values())
        return {"memory-too-small"} if smallest <= cluster.reserve + 1 else set()
    each = [[-(-one * cluster.per_gpu // card) for one in mib] for card in cluster.cards]
    if any(sum(sizes) <= cluster.per_gpu for sizes in each):
        return set()
    may_part = cluster.containers == "any-gpu" and cluster.mode == "per-gpu"
    is_parted = may_part and any(max(sizes) <= cluster.per_gpu for sizes in each)
    return set() if is_parted else {"no-matching-node"}
