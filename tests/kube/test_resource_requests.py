"""Kubernetes' rule for what a pod requests, by examples worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.resource_requests import Container, ContainerRequests, EffectiveRequest, effective_request
from modes.resource_names import ResourceNames
from modes.units import POOL

NAMES = ResourceNames()
GPU = "nvidia.com/gpu-0"


def container(policy: str | None = None, **requests: str | int) -> Container:
    named = {key.replace("gpu", GPU): value for key, value in requests.items()}
    return Container(ContainerRequests(named), policy)


def test_containers_add_up_and_other_resources_are_not_even_read() -> None:
    request = effective_request(
        [
            Container(
                ContainerRequests(
                    {"cpu": "500m", "memory": "1Gi", GPU: "4", "example.com/odd": "no quantity"}
                )
            ),
            Container(ContainerRequests({"cpu": 1, "ephemeral-storage": "10Gi"})),
            Container(ContainerRequests(None)),
            Container(None),
        ],
        counts=NAMES.counts,
    )
    assert request == EffectiveRequest(1500, 2**30, {GPU: 4})


def test_overhead_comes_on_top_and_the_pods_own_request_takes_the_sums_place() -> None:
    request = effective_request(
        [container(cpu="1", memory="1Gi", gpu=1)],
        overhead={"cpu": "250m", "memory": "64Mi"},
        pod_level={"cpu": "3"},
        counts=NAMES.counts,
    )
    assert request == EffectiveRequest(3250, 2**30 + 2**26, {GPU: 1})


@pytest.mark.parametrize("amounts", [{"cpu": "-4", "memory": "-1Gi"}, {"cpu": "-1m", "memory": -1}])
def test_less_than_nothing_counts_as_nothing(amounts: dict[str, str | int]) -> None:
    """The API server refuses such a pod, but only after its webhooks: until then it must make no room."""
    made = effective_request([Container(ContainerRequests(amounts))])
    assert (made.cpu_milli, made.memory_bytes) == (0, 0)


def test_an_extended_resource_that_is_no_whole_number_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'quantity "500m" is not a whole number'):
        effective_request([container(gpu="500m")], counts=NAMES.counts)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=5), st.lists(st.integers(0, 9), max_size=3)
)
def test_the_request_is_the_peak_of_what_runs_at_any_time(init, regular) -> None:
    peak, sidecars = 0, 0
    for is_sidecar, cpu in init:
        peak = max(peak, sidecars + cpu)
        sidecars += cpu if is_sidecar else 0
    peak = max(peak, sidecars + sum(regular))
    init_containers = [container("Always" if is_sidecar else None, cpu=cpu) for is_sidecar, cpu in init]
    assert (
        effective_request([container(cpu=cpu) for cpu in regular], init_containers).cpu_milli == 1000 * peak
    )


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("nvidia.com/gpu-0", 0),
        ("nvidia.com/gpu-17", 17),
        ("nvidia.com/gpu", POOL),
        ("nvidia.com/gpu-", None),
        ("nvidia.com/gpu-01", None),
        ("nvidia.com/gpu-1000", None),
        ("nvidia.com/gpu--1", None),
        ("nvidia.com/gpu-\u0663", None),
        ("nvidia.com/gpumem", None),
    ],
)
def test_only_a_plain_index_after_the_prefix_is_a_gpu(name: str, index: int | None) -> None:
    assert NAMES.unit(name) == index
