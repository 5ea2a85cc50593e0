"""Step "size": what no valid pod has, or no real one, is denied before any rule walks it."""

from functools import partial

import pytest

from tests.webhook.support import Webhook, container, decide, pod
from webhook.admission import sizes


def rows(kind, count, **fields):
    return [{"name": f"{kind}-{number}", **fields} for number in range(count)]


def many_amounts(count):
    limits = {f"a/{number}": 1 for number in range(count - 3)}
    inits = [container("i", limits={"cpu": 1})]
    return pod(
        containers=[container(resources={"limits": limits})], initContainers=inits, overhead={"cpu": 1}
    )


def many_mounts(count):
    return pod(containers=[container(volumeMounts=rows("v", count, mountPath="/data"))])


def many_containers(count, regular=None):
    regular = regular or count
    both = {"containers": rows("c", regular), "initContainers": rows("i", count - regular)}
    return pod(metadata={"name": "c-0"}, **both)


@pytest.mark.parametrize(
    ("what", "bound", "make"),
    [
        ("containers", sizes.MAX_CONTAINERS, many_containers),
        ("containers", sizes.MAX_CONTAINERS, partial(many_containers, regular=100)),
        ("volume mounts", sizes.MAX_MOUNTS, many_mounts),
        ("resource amounts", sizes.MAX_AMOUNTS, many_amounts),
    ],
)
def test_a_pod_at_the_bound_gets_its_share_and_one_more_is_denied_in_words(what, bound, make):
    assert decide(make(bound)).code == "injected"
    denied = decide(make(bound + 1))
    assert denied.code == "pod-too-large"
    assert f"{bound + 1} {what}, more than {bound}: " in denied.message


TWICE = [{"name": "v"}, {"name": "w"}, {"name": "v", "hostPath": {"path": "/data"}}]


@pytest.mark.parametrize(
    ("what", "spec"),
    [
        ("containers", {"containers": [container(), container("b"), container("b")]}),
        ("containers", {"initContainers": [container()]}),
        ("containers", {"initContainers": [container("i"), container("i")]}),
        ("volumes", {"volumes": TWICE}),
    ],
)
def test_a_name_that_comes_twice_is_denied_as_the_api_server_would(what, spec):
    decided = decide(pod(**spec))
    assert decided.code == "duplicate-name"
    assert decided.message.startswith(f"several {what} of the pod are named ")
    assert decide(pod(**spec, fraction=None)).code == "not-labelled"


def test_a_patch_of_too_many_operations_is_denied_and_nothing_stays_reserved():
    copies = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * (sizes.MAX_OPERATIONS + 1)
    webhook = Webhook()
    decided = webhook.decide(pod(containers=[container(env=copies)]))
    assert decided.code == "pod-too-large"
    assert decided.message == (
        "the share needs 513 changes of the pod, more than 500: remove variables and clear.ml/fraction-*"
        " that the injector removes"
    )
    assert webhook.ledger.totals().used == 0


def test_a_patch_of_too_many_bytes_is_denied(monkeypatch):
    monkeypatch.setattr(sizes, "MAX_PATCH_BYTES", 10_000)
    preload = [{"name": "LD_PRELOAD", "value": "x" * sizes.MAX_PATCH_BYTES}]
    decided = decide(pod(containers=[container(env=preload)]))
    assert decided.code == "pod-too-large"
    assert decided.message.endswith("shorten LD_PRELOAD, names and amounts")
