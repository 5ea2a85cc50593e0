"""Static pods run already when their kubelet shows them to the API server: the lock leaves them alone."""

import pytest

from testbed.chart import RELEASE
from tests.control_plane.admission_policies.support import asking, create_as_node, labelled_asking, refused
from tests.control_plane.admission_policies.test_creations import NEEDS_LABEL


def mirror(pod, node):
    """A static pod as its kubelet shows it to the API server."""
    pod["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "0123",
        "kubernetes.io/config.hash": "0123",
    }
    pod["spec"]["nodeName"] = node
    return pod


@pytest.mark.parametrize("where", ["forged-default", "kube-system"])
@pytest.mark.parametrize("make", [asking, labelled_asking], ids=["unlabelled", "labelled"])
def test_the_mirror_of_a_static_pod_is_never_refused(no_webhook, control_plane, make, where):
    pod = mirror(make("nvidia.com/gpu-0"), "gpu-0")
    pod["spec"]["priorityClassName"] = RELEASE
    made = create_as_node(control_plane, pod, where)
    assert (made.code, made.stderr) == (0, "")
    control_plane.api.delete("Pod", pod["metadata"]["name"], where)


def test_the_annotation_of_a_mirror_pod_frees_nobody_else(lock, control_plane, namespace):
    with refused("unlabelled", NEEDS_LABEL):
        control_plane.api.create(mirror(asking("nvidia.com/gpu-0"), "gpu-0"), namespace)
    plain = asking("nvidia.com/gpu-0")
    plain["spec"]["nodeName"] = "gpu-0"
    made = create_as_node(control_plane, plain, namespace)
    assert (made.code, NEEDS_LABEL in made.stderr) == (1, True)
