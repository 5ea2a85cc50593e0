"""Mixes of a trace's pods."""

from dataclasses import replace

import pytest

from bench.packing.mixes import mixes
from bench.packing.trace import Trace, TraceNode, synthetic

OF_OPENB = (
    TraceNode("a", 104_000, 2**20, 2, "T4"),
    TraceNode("b", 16_000, 2**20, 2, "P100"),
    TraceNode("c", 96_000, 2**20, 8, "G2"),
    TraceNode("d", 128_000, 2**20, 8, "G3"),
    TraceNode("e", 48_000, 2**20, 4, "V100M32"),
)


@pytest.fixture
def trace() -> Trace:
    """Nodes of models as in openb, and pods of every kind."""
    return replace(synthetic(nodes=5, pods=3000), nodes=OF_OPENB)


def naming(mix):
    return {number: pod.models for number, pod in enumerate(mix.pods) if pod.models}


def test_mixes_are_always_alike(trace):
    assert mixes(trace) == mixes(trace)


def test_about_a_third_of_the_pods_with_gpus_name_models(trace):
    named = naming(mixes(trace)[0])
    asking = sum(1 for pod in trace.pods if pod.gpus)
    assert 0.28 < len(named) / asking < 0.38


def test_pods_name_only_models_of_which_some_node_could_hold_them(trace):
    for pod in mixes(trace)[0].pods:
        holding = [node for node in OF_OPENB if node.gpus >= pod.gpus and node.cpu_milli >= pod.cpu_milli]
        assert not pod.models or {node.model for node in holding}.intersection(pod.models)


def test_what_pods_name_hangs_on_what_they_ask_for(trace):
    named = [pod for pod in mixes(trace)[0].pods if pod.models]
    shares = {pod.models for pod in named if pod.gpus == 1 and pod.gpu_milli < 1000}
    assert {("T4",), ("P100",)} <= shares
    assert not any("G3" in models for models in shares)
    assert {("G3",), ("G2",)} <= {pod.models for pod in named if pod.gpus == 1} - shares


def test_pods_without_gpus_are_added_to_those_there_are(trace):
    without = [sum(1 for pod in mix.pods if not pod.gpus) for mix in mixes(trace) if "cpu" in mix.name]
    before = sum(1 for pod in trace.pods if not pod.gpus)
    assert without == [before + before * 7 // 6, before + before * 9 // 5]
