"""What webhooks and controllers say of themselves, by the metrics that an API server passes on."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cluster.kube_client import ApiError
from doctor.processes import read_processes
from doctor.seen import Figures, ServingPod
from service.metrics import PolicyMetrics

LEADER = """fraction_injector_leading 1.0
fraction_injector_cards{driver="a"} 2.0
fraction_injector_cards{driver="b"} 1.0
fraction_injector_gpus 35.0
fraction_injector_slices_capacity 280.0
fraction_injector_slices_free 19.0
fraction_injector_waiting_slices 12.0
"""
ENDS = "fraction_injector_certificate_expiry_timestamp_seconds 9.0\n"


def metrics(digest="new", *, leads=False):
    """What a process serves at /metrics, made by its own collectors."""
    registry = CollectorRegistry()
    registry.register(PolicyMetrics(lambda: digest, lambda: 5.0 if digest else None))
    return generate_latest(registry).decode() + ENDS + (LEADER if leads else "")


def pod(name, component="webhook", phase="Running", port="health"):
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": component}},
        "spec": {"containers": [{"ports": [{"containerPort": 8443}, {"name": port, "containerPort": 8080}]}]},
        "status": {"phase": phase},
    }


def read(answers, pods=None):
    class Api:
        async def request(self, method, path, **_):
            name = path.removeprefix("/api/v1/namespaces/n/pods/").removesuffix(":8080/proxy/metrics")
            found = answers[name]
            if isinstance(found, Exception):
                raise found
            return found.encode()

    pods = pods or [pod(name, name.split("-")[1]) for name in answers]
    return asyncio.run(read_processes(Api(), "n", "x", pods))


def test_a_process_says_what_it_serves_and_the_leader_what_it_counts():
    found = read({"x-webhook-a": metrics(), "x-controller-a": metrics(leads=True)})
    figures = Figures(gpus=35, slices=280, free=19, waiting=12, cards=3)
    assert found == (
        ServingPod("x-controller-a", "controller", "new", 5.0, certificate_ends=9.0, figures=figures),
        ServingPod("x-webhook-a", "webhook", "new", 5.0, certificate_ends=9.0),
    )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (metrics(None), "it serves no policies"),
        (TimeoutError(), "no answer: timeout"),
        (ApiError(503, "error trying to reach service"), "no answer: the API server answered 503: error"),
        ("<html>", "no answer: "),
    ],
)
def test_a_process_that_does_not_say_so_is_named_with_the_reason(answer, problem):
    [found] = read({"x-webhook-a": answer})
    assert found.digest is None
    assert found.problem.startswith(problem)


def test_pods_that_do_not_decide_by_the_policies_are_not_asked_and_those_that_start_are_named():
    strangers = [pod("x-agent-a", "agent"), pod("y-webhook-a"), pod("x-webhook-z", phase="Failed")]
    found = read({}, [*strangers, pod("x-webhook-b", phase="Pending"), pod("x-webhook-c", port="other")])
    assert [(each.pod, each.problem) for each in found] == [
        ("x-webhook-b", "the pod is Pending"),
        ("x-webhook-c", "it has no port named health"),
    ]


def test_without_the_right_to_ask_pods_nothing_is_said_of_them():
    with pytest.raises(ApiError):
        read({"x-webhook-a": ApiError(403, "pods/proxy is forbidden")})
