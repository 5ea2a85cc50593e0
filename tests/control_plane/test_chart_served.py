"""Which namespaces the second lock takes for served: those that the webhook's own selector selects."""

from contextlib import contextmanager

import pytest

from testbed.chart import RELEASE
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, labelled_pod

SELECTORS = [
    ({"matchLabels": {"gpu": "yes", "team": "blue"}}, {"gpu": "yes", "team": "blue"}, {"gpu": "yes"}),
    (
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes", "often"]}]},
        {"gpu": "often"},
        {"gpu": "no"},
    ),
    ({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["no", ""]}]}, {}, {"gpu": ""}),
    ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {"gpu": ""}, {}),
    ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, {}, {"gpu": "yes"}),
]
"""Each with labels of a namespace that it selects, and of one that it does not."""


@contextmanager
def lock(control_plane, helm, name, selector):
    """The part of the lock about namespaces that are not served, for a selector of the webhook."""
    rendered = helm.rendered({"fullnameOverride": name, "webhook": {"namespaceSelector": selector}})
    parts = {f"{name}-unserved", f"{RELEASE}-second-lock"}
    wanted = [each for each in rendered if each["metadata"]["name"] in parts]
    for each in wanted:
        control_plane.api.create(each, OWN_NAMESPACE)
    yield
    for each in wanted:
        control_plane.api.delete(each["kind"], each["metadata"]["name"], OWN_NAMESPACE, each["apiVersion"])


def refusal(api, namespace):
    """What the API server says of a labelled pod that asks for slices of one GPU."""
    pod = labelled_pod("asks")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu-0": "1"}}
    return api.refusal(pod, namespace)


@pytest.mark.parametrize("number", range(len(SELECTORS)))
def test_the_lock_reads_the_webhooks_selector(control_plane, helm, own_namespace, number):
    api, name, (selector, served, unserved) = control_plane.api, f"served-{number}", SELECTORS[number]
    control_plane.create_namespace(name, served)
    control_plane.create_namespace(f"un{name}", unserved)
    with lock(control_plane, helm, name, selector):
        eventually(lambda: f"'{name}-unserved'" in refusal(api, f"un{name}"), "the lock takes effect")
        # The API server may still hold the last case's lock for a moment.
        eventually(lambda: not refusal(api, name), "the served namespace is distinguished")
    for namespace in (name, f"un{name}"):
        api.delete("Namespace", namespace)
