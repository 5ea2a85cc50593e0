"""Advice of the doctor on the reasons that agents publish, and the kubelet about them."""

import pytest

from agent.gpu import GpuCondition
from agent.other_plugins import TWICE_BY_DRIVER
from agent.runtime import Runtime, _problem_of
from doctor.reasons import READ_LOG, advice_for, reasons_of

SOCKET = "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    "text",
    [
        _problem_of(Runtime("containerd://1.7.27", cdi=False)),
        _problem_of(Runtime("containerd://1.7.27")),
        _problem_of(Runtime("containerd://1.6.0", cdi=True)),
        _problem_of(Runtime("docker://25.0")),
        GpuCondition(answers=False).why_unhealthy,
        GpuCondition(answers=True, recovery="reset of the GPU").why_unhealthy,
        GpuCondition(answers=True, mig=True).why_unhealthy,
        GpuCondition(answers=True, watch_error="NVML: Unknown Error").why_unhealthy,
        TWICE_BY_DRIVER.format("gpu.nvidia.com, as gpu-0"),
        "no CDI specification in /etc/cdi names this card",
        "another agent runs on this node",
        "/lib/x is not there: put the library",
        "not registered with the kubelet yet",
        "the agent has ended: look for its pod on the node",
        "its ResourceSlice is not published yet",
        "the API server answered 403: resourceslices.resource.k8s.io is forbidden",
    ],
)
def test_what_keeps_an_agent_from_offering_has_advice(text):
    assert advice_for(text) != READ_LOG


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("there is no NVIDIA driver: libnvidia-ml.so.1 is not found", "check agent.runtimeClassName and"),
        (f"hostPath type check failed, {SOCKET} is not a socket file", "set agent.runtimeSocket: "),
        # As on a node of k3s that also has Docker.
        (f"the container runtime does not answer on {SOCKET}: unknown service", "set agent.runtimeSocket: "),
        ("something new", READ_LOG),
    ],
)
def test_a_reason_has_the_advice_of_its_cause(text, advice):
    assert advice_for(text).startswith(advice)


def test_the_same_reason_of_many_resources_is_reported_once():
    missing = "; ".join(f"nvidia.com/gpu-{index}: CDI is off in x: set y; then z" for index in range(8))
    assert list(reasons_of(missing)) == [("nvidia.com/gpu-0 and 7 more", "CDI is off in x: set y; then z")]
    # A GpuNode holds no more than so much of it.
    assert list(reasons_of(missing[:-20])) == [
        ("nvidia.com/gpu-0 and 7 more", "CDI is off in x: set y; then z")
    ]


def test_different_reasons_are_distinguished_and_one_without_a_resource_stands_alone():
    assert list(reasons_of("nvidia.com/gpu-0: a; nvidia.com/gpu-1: b")) == [
        ("nvidia.com/gpu-0", "a"),
        ("nvidia.com/gpu-1", "b"),
    ]
    assert list(reasons_of("the agent has ended: look for it")) == [("", "the agent has ended: look for it")]
