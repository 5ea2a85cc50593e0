"""Advice of the doctor: no reason that an agent publishes is left to the log."""

import ast
import re
from pathlib import Path

import pytest

import agent
from agent.card_names import choose_names
from agent.cdi import CdiError
from agent.dra.serving import _NO_SHARES
from agent.gpu import Gpu, GpuCondition
from agent.kubernetes.other_drivers import _TWICE
from agent.options import AgentOptions
from agent.runtime import Runtime, _problem_of, cdi_problem
from doctor.reasons import READ_LOG, advice_for, reasons_of

SOURCES = Path(agent.__file__).parent
ENDS_A_REASON = {
    "CdiError": ("card_names.py", "card_specification.py", "cdi.py", "dra/specifications.py"),
    "LibraryError": ("limiter_library.py",),
    "NotPreparedError": ("plugins.py", "preparation.py"),
    "UntrustedError": ("private_folder.py",),
    "KubeletError": ("registration.py",),
}
"""Errors whose texts become the GpuNode's `missing`, and the modules that make them."""


def raised():
    """(module, text) of each such error that the agent makes; what is filled in is a word."""
    for error, modules in ENDS_A_REASON.items():
        for module in modules:
            for made in ast.walk(ast.parse((SOURCES / module).read_text())):
                if isinstance(made, ast.Call) and getattr(made.func, "id", "") == error and made.args:
                    yield module, text_of(made.args[0])


def text_of(value):
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(text_of(each) for each in value.values)
    if isinstance(value, ast.FormattedValue):
        return "/usr/bin/nvidia-ctk" if "_ctk" in ast.unparse(value) else "WORD"
    return ""


RAISED = sorted({(module, text) for module, text in raised() if re.search("[a-z]", text)})


@pytest.mark.parametrize(("module", "text"), RAISED)
def test_each_error_that_keeps_an_agent_from_offering_has_advice(module, text):
    assert advice_for(text) != READ_LOG, module


def registration_reasons():
    tree = ast.parse((SOURCES / "registration.py").read_text())
    returned = [each.value for each in ast.walk(tree) if isinstance(each, ast.Return) and each.value]
    said = [
        each.args[0]
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "_say_missing"
    ]
    return sorted(
        {
            each.value
            for each in (*returned, *said)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        *registration_reasons(),
        "not registered with the kubelet yet",
        "no GPU is offered yet",
        "the agent has ended: look for its pod on the node",
        "the kubelet does not register it: version not supported",
    ],
)
def test_each_reason_of_registration_has_advice(text):
    assert advice_for(text) != READ_LOG


@pytest.mark.parametrize(
    "text",
    [
        _TWICE.format("gpu.nvidia.com, as gpu-0"),
        _NO_SHARES,
        "its socket was removed",
        "its ResourceSlice is not published yet",
        "the API server answered 403: resourceslices.resource.k8s.io is forbidden",
        "the API server answered 404: the server could not find the requested resource",
    ],
)
def test_each_reason_of_a_dra_driver_has_advice(text):
    assert advice_for(text) != READ_LOG


@pytest.mark.parametrize(
    "runtime",
    [
        Runtime("containerd://1.7.27", cdi=False),
        Runtime("containerd://1.7.27"),
        Runtime("containerd://1.6.0", cdi=True),
        Runtime("docker://25.0"),
        Runtime("nonsense"),
    ],
)
def test_each_runtime_without_cdi_has_advice(runtime):
    assert advice_for(_problem_of(runtime)) != READ_LOG


def test_a_runtime_that_nobody_asked_has_advice():
    assert advice_for(cdi_problem(AgentOptions(policies="/p", policy="default"))) != READ_LOG


def test_a_card_without_a_cdi_device_has_advice():
    card = Gpu(0, "GPU-0", "NVIDIA A100", 81920)
    with pytest.raises(CdiError) as error:
        choose_names({"management.nvidia.com/gpu": {"all": None}}, [card], ["/etc/cdi", "/var/run/cdi"])
    assert advice_for(str(error.value)).startswith("set agent.driverRoot")


@pytest.mark.parametrize(
    "condition",
    [
        GpuCondition(answers=False),
        GpuCondition(answers=True, recovery="reset of the GPU"),
        GpuCondition(answers=True, mig=True),
        GpuCondition(answers=True, watch_error="NVML: Unknown Error"),
    ],
)
def test_each_condition_of_a_card_has_advice(condition):
    assert advice_for(condition.why_unhealthy) != READ_LOG


SOCKET = "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "there is no NVIDIA driver: libnvidia-ml.so.1 is not found",
            "check agent.runtimeClassName and agent.driverRoot",
        ),
        (
            f"FailedMount: hostPath type check failed, {SOCKET} is not a socket file",
            "set agent.runtimeSocket: ",
        ),
        # As on a node of k3s that also has Docker.
        (f"the container runtime does not answer on {SOCKET}: unknown service", "set agent.runtimeSocket: "),
    ],
)
def test_reasons_of_pods_have_the_advice_of_their_cause(text, advice):
    assert advice_for(text).startswith(advice)


def test_an_unknown_reason_leads_to_the_log():
    assert advice_for("something new") == READ_LOG


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
