"""Cards on nodes, offered to claims as the agent's driver offers them, as fixtures."""

import pytest

from agent.dra.resource_slice import OfferedCard, devices_of
from agent.gpu import Gpu
from kube.dra import DRIVER
from kube.names import RESOURCE_SLICES_PATH
from testbed.api import ApiError
from testbed.gpu_nodes import GpuNode
from tests.product import ROOT

API = "resource.k8s.io/v1"
DEVICE_CLASS = ROOT / "charts/fraction-injector/templates/agent/device-class.yaml"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def device(number, mib):
    gpu = Gpu(number, f"GPU-{number}", f"NVIDIA A100-SXM4-{mib // 1024}GB", mib, minor=number)
    [found] = devices_of([OfferedCard(gpu, None)])
    return found


@pytest.fixture
def device_class(control_plane):
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].?type.orValue('') == 'gpu'"
    assert " ".join(DEVICE_CLASS.read_text().split()).count(expression) == 1, "as in the chart"
    body = {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    try:
        control_plane.api.call("POST", CLASSES, body)
    except ApiError as error:
        if error.code != 409:
            raise


@pytest.fixture
def offer(control_plane, nodes, device_class):
    """Add nodes whose cards the agent's driver offers: `offer([81920, 40960])` has one with two cards."""
    api, written = control_plane.api, []

    def write(*cards):
        names = nodes(*[GpuNode(gpus=0)] * len(cards))
        for name, sizes in zip(names, cards, strict=True):
            spec = {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    each if isinstance(each, dict) else device(number, each)
                    for number, each in enumerate(sizes)
                ],
            }
            metadata = {"name": f"{name}-claims"}
            api.call(
                "POST",
                RESOURCE_SLICES_PATH,
                {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec},
            )
            written.append(metadata["name"])
        return names

    yield write
    for name in written:
        api.call("DELETE", f"{RESOURCE_SLICES_PATH}/{name}")
