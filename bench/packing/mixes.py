"""Mixes of a trace's pods like those that openb publishes beside its default list: drawn anew, always alike.

Who names GPU models is drawn by what a pod asks for, as in openb's lists: P100 alone, whose nodes have little
CPU, is named for shares of a GPU, and pods of several GPUs name no model whose nodes have fewer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.packing.trace import GPU, Trace, TraceNode, TracePod, model_names

_BY_SHARES: Mapping[str, int] = {"": 2194, "T4": 593, "P100": 278, "G2|P100|T4|V100M16|V100M32": 13}
_BY_ONE_GPU: Mapping[str, int] = {
    "": 2435,
    "T4": 698,
    "G2": 321,
    "V100M16|V100M32": 156,
    "P100|V100M16|V100M32": 102,
    "G3": 80,
    "P100|T4|V100M16|V100M32": 33,
    "G2|P100|T4|V100M16|V100M32": 26,
    "A10|G2|T4|V100M16|V100M32": 24,
    "V100M32": 18,
    "A10|T4": 6,
    "P100|V100M16": 4,
    "A10|G2|P100|T4|V100M16|V100M32": 3,
    "V100M16": 3,
    "P100": 1,
    "T4|V100M16|V100M32": 1,
}
_BY_SEVERAL_GPUS: Mapping[str, int] = {
    "": 47,
    "G2": 10,
    "V100M16|V100M32": 7,
    "G3": 6,
    "T4|V100M16|V100M32": 2,
    "V100M32": 2,
    "P100|V100M16|V100M32": 1,
}
"""Pods of openb's gpuspec33 by the models that they name."""


def mixes(trace: Trace) -> list[Trace]:
    """Return what openb calls gpuspec33, cpu250 and cpu300, drawn from a trace."""
    return [
        replace(trace, name="gpuspec33", pods=_naming_models(trace)),
        replace(trace, name="cpu250", pods=(*trace.pods, *_more_without_gpus(trace, 7 / 6))),
        replace(trace, name="cpu300", pods=(*trace.pods, *_more_without_gpus(trace, 9 / 5))),
    ]


def _rng(trace: Trace) -> random.Random:
    return random.Random(trace.name)  # noqa: S311 - a repeatable experiment, no secret


def _naming_models(trace: Trace) -> tuple[TracePod, ...]:
    rng = _rng(trace)
    return tuple([_named(rng, pod, trace) if pod.gpus else pod for pod in trace.pods])


def _named(rng: random.Random, pod: TracePod, trace: Trace) -> TracePod:
    """A pod with models, or as it is: some no node of these models could hold."""
    by = _BY_SEVERAL_GPUS if pod.gpus > 1 else _BY_ONE_GPU if pod.gpu_milli == GPU else _BY_SHARES
    named = replace(pod, models=model_names(rng.choices(list(by), list(by.values()))[0]))
    rng.random()  # What ebcb222d drew here for another list: the pods are still the same.
    return named if any(_holds(node, named) for node in trace.nodes) else pod


def _holds(node: TraceNode, pod: TracePod) -> bool:
    has_model = not pod.models or node.model in pod.models
    return has_model and node.cpu_milli >= pod.cpu_milli and node.gpus >= pod.gpus


def _more_without_gpus(trace: Trace, times: float) -> Iterator[TracePod]:
    """Pods without GPUs, so many times as many more as there are."""
    rng = _rng(trace)
    without = [pod for pod in trace.pods if not pod.gpus]
    return (rng.choice(without) for _ in range(int(len(without) * times)))
