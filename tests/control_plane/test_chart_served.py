"""Which namespaces the second lock takes for served: those that the webhook's own selector selects."""

import pytest

from testbed.api import ApiError
from testbed.chart import CHART, Helm, objects_of
from testbed.process import eventually
from testbed.registration import OWN_NAMESPACE, labelled_pod

RELEASE = "served"
PARTS = {f"{RELEASE}-unserved", f"{RELEASE}-second-lock"}
"""Policy, binding, and what the lock holds by."""
EXPRESSIONS = {
    "labels": (
        {"matchLabels": {"gpu": "yes", "team": "blue"}},
        {"gpu": "yes", "team": "blue"},
        {"gpu": "yes"},
    ),
    "In": (
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes", "often"]}]},
        {"gpu": "often"},
        {"gpu": "no"},
    ),
    "NotIn": (
        {"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["no", ""]}]},
        {},
        {"gpu": ""},
    ),
    "Exists": ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {"gpu": ""}, {}),
    "DoesNotExist": ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, {}, {"gpu": "yes"}),
}


@pytest.fixture
def lock(control_plane, tmp_path):
    """Create the part of the lock about namespaces that are not served, for a selector of the webhook."""
    made = []
    if not control_plane.takes_pods(OWN_NAMESPACE):
        control_plane.create_namespace(OWN_NAMESPACE)

    def create(selector):
        helm = Helm(control_plane, tmp_path)
        values = helm.values({"fullnameOverride": RELEASE, "webhook": {"namespaceSelector": selector}})
        rendered = helm.run("template", RELEASE, str(CHART), values)
        assert (rendered.code, rendered.stderr) == (0, "")
        wanted = [obj for obj in objects_of(rendered.stdout) if obj["metadata"]["name"] in PARTS]
        made.extend(control_plane.api.create(obj, OWN_NAMESPACE) for obj in wanted)

    yield create
    for obj in made:
        api, name = obj["apiVersion"], obj["metadata"]["name"]
        control_plane.api.delete(obj["kind"], name, OWN_NAMESPACE, api)


def asks(api, namespace):
    """Whether the lock lets a labelled pod ask for slices of one GPU here."""
    pod = labelled_pod("asks")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu-0": "1"}}
    try:
        api.create(pod, namespace, dry_run=True)
    except ApiError as error:
        return "is not served" not in str(error)
    return True


@pytest.mark.parametrize("case", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_the_lock_reads_the_webhooks_selector(lock, control_plane, request, case):
    selector, served, unserved = case
    number = list(EXPRESSIONS).index(request.node.callspec.id)
    control_plane.create_namespace(f"served-{number}", served)
    control_plane.create_namespace(f"unserved-{number}", unserved)
    lock(selector)
    eventually(lambda: not asks(control_plane.api, f"unserved-{number}"), "the lock takes effect")
    # The API server may still hold the last case's lock for a moment.
    eventually(lambda: asks(control_plane.api, f"served-{number}"), "the served namespace is distinguished")
    assert not asks(control_plane.api, f"unserved-{number}")
    for name in (f"served-{number}", f"unserved-{number}"):
        control_plane.api.delete("Namespace", name)
