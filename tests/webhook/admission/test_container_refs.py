"""One walk over the containers for all rules: init containers first, what each sees and what it asks for."""

import msgspec
import pytest

from tests.webhook.support import container, default_policies
from webhook.admission.container_refs import container_refs
from webhook.admission.pod import PodSpec

MODE = default_policies().resolve("team", None, None).mode


def refs(root="/spec", **spec):
    return container_refs(msgspec.convert(spec, PodSpec), MODE, root)


def test_init_containers_come_first_and_each_is_named_by_its_place():
    found = refs(initContainers=[container("a")], containers=[container("b"), container("c")])
    assert [(ref.path, ref.container.name, ref.is_init) for ref in found] == [
        ("/spec/initContainers/0", "a", True),
        ("/spec/containers/0", "b", False),
        ("/spec/containers/1", "c", False),
    ]
    assert refs("/spec/template/spec", containers=[container()])[0].path == "/spec/template/spec/containers/0"
    assert refs(containers=None, initContainers=None) == []


def test_all_paths_that_an_image_does_not_bring_are_seen_as_written_and_normalised():
    [ref] = refs(
        containers=[
            container(
                volumeMounts=[{"name": "a", "mountPath": "/data/../x/"}],
                volumeDevices=[{"name": "b", "devicePath": "//dev/disk"}],
                terminationMessagePath="/dev/./log",
            )
        ]
    )
    assert ref.paths == [("/data/../x/", "/x"), ("//dev/disk", "/dev/disk"), ("/dev/./log", "/dev/log")]


@pytest.mark.parametrize(
    ("limits", "asks"),
    [
        ({"nvidia.com/gpu": "1"}, True),
        ({"nvidia.com/gpu-3": "4"}, True),
        ({"nvidia.com/gpu": "0"}, False),
        ({"cpu": "1"}, False),
        (None, False),
    ],
)
def test_more_than_zero_of_a_gpu_is_asking_for_one(limits, asks):
    [ref] = refs(containers=[container(limits=limits)])
    assert ref.asks_for_gpu is asks
