"""The kubelet's own file: what cannot be read is as if it were not there."""

import json

import pytest

from agent.kubelet_checkpoint import NAME, allocations_in, divisions_of
from tests.agent.support.kubelet import FakeKubelet


@pytest.fixture
def kubelet(tmp_path):
    (tmp_path / "device-plugins").mkdir()
    return FakeKubelet(tmp_path)


def allocations(kubelet):
    return allocations_in(kubelet.root / "device-plugins")


def test_it_says_of_how_many_slices_a_gpu_was(kubelet):
    kubelet.write_checkpoint(
        ("a", "main", "nvidia.com/gpu-0", ["G::0", "G::1"], "4"),
        ("b", "main", "nvidia.com/gpu-1", ["H::0"], "16"),
        ("c", "main", "example.com/nic", ["nic-0"], None),
        ("d", "main", "nvidia.com/gpu-0", ["G::2"], None),
    )
    assert divisions_of(allocations(kubelet)) == {frozenset({"G::0", "G::1"}): 4, frozenset({"H::0"}): 16}


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"[]",
        b'{"Data": {"PodDeviceEntries": 5}}',
        b'{"Data": {"PodDeviceEntries": null}}',
        b'{"Data": {"PodDeviceEntries": [{"PodUID": "a"}]}}',
        b'{"x": ' + b"[" * 100_000,
        b'{"Data": {"PodDeviceEntries": [{"PodUID": "\xff"}]}}',
    ],
)
def test_an_invalid_file_has_no_allocations(kubelet, content):
    if content is not None:
        (kubelet.root / "device-plugins" / NAME).write_bytes(content)
    assert allocations(kubelet) == ()


def test_what_another_kubelet_leaves_open_costs_no_other_entry(kubelet):
    known = {"PodUID": "a", "ContainerName": "c", "ResourceName": "r", "DeviceIDs": {"0": ["G::0"]}}
    empty = {**known, "PodUID": "b", "DeviceIDs": None, "AllocResp": None}
    odd = {**known, "PodUID": "d", "DeviceIDs": {"0": None, "1": ["G::1"]}, "AllocResp": ""}
    content = {"Data": {"PodDeviceEntries": [known, empty, odd]}, "Checksum": 1}
    (kubelet.root / "device-plugins" / NAME).write_text(json.dumps(content))
    found = {each.pod: each.ids for each in allocations(kubelet)}
    assert found == {"a": {"G::0"}, "b": frozenset(), "d": {"G::1"}}
