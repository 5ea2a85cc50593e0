"""The ResourceSlices of this node, our own and those of other drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from agent.dra.resource_slice import manifest, slice_name, without_times
from agent.gpu import Gpu
from agent.kubernetes.api_server import ApiServerClient
from kube.cordon import indices_of
from kube.dra import DRIVER
from kube.names import CORDON_ANNOTATION, RESOURCE_SLICES_PATH
from service.log import get_logger

MAX_SLICES = 100
"""Of other drivers that are read."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the API server kept of our devices."""

    has_shares: bool
    """False: its feature gate DRAConsumableCapacity is off, and a claim takes a whole card."""
    has_taints: bool
    """False: its feature gate DRADeviceTaints is off."""


class ResourceSlices:
    """Reads and writes them, from a thread."""

    def __init__(self, api: ApiServerClient, node: str) -> None:
        self._api = api
        self._node = node
        self._wanted: list[dict[str, Any]] | None = None
        self._stored: list[dict[str, Any]] | None = None
        """What the API server made of `_wanted`: it drops fields whose feature gates are off."""
        self._log = get_logger("DRA driver")

    def publish(self, devices: list[dict[str, Any]]) -> Published:
        """Make these the devices of our pool; without devices there is no slice.

        Raises:
            ApiServerError: they are not.
        """
        ours = self._list(f"spec.nodeName={self._node},spec.driver={DRIVER}")
        name = slice_name(self._node)
        for each in ours:
            if _name(each) != name or not devices:
                self._api.delete(f"{RESOURCE_SLICES_PATH}/{_name(each)}")
        found = next((each for each in ours if _name(each) == name), None)
        if devices and not (found is not None and self._is_current(found, devices, len(ours))):
            generation = 1 + max((each["spec"]["pool"]["generation"] for each in ours), default=0)
            self._stored = self._write(found, devices, generation)
            self._wanted = devices
            self._log.info("ResourceSlice published", devices=len(devices))
        return _published(devices, self._stored or [])

    def cordoned(self) -> frozenset[int]:
        """Return the numbers of the cards that the Node's annotation keeps new pods from.

        Raises:
            ApiServerError: the Node cannot be read.
        """
        annotations = self._read_node().get("annotations")
        return indices_of(str(annotations.get(CORDON_ANNOTATION, ""))) if annotations else frozenset()

    def others(self, gpus: Iterable[Gpu]) -> dict[str, str]:
        """Return the driver and device by which another driver offers a card, by UUID.

        Raises:
            ApiServerError: the slices cannot be read.
        """
        cards = {name: gpu.uuid for gpu in gpus for name in (gpu.uuid, gpu.bus) if name is not None}
        found = {}
        for each in self._list(f"spec.nodeName={self._node}"):
            if (driver := each["spec"]["driver"]) == DRIVER:
                continue
            for device in each["spec"].get("devices", ()):
                for value in device.get("attributes", {}).values():
                    if (uuid := cards.get(value.get("string"))) is not None:
                        found[uuid] = f"{driver}, as {device['name']}"
        return found

    def _is_current(self, found: dict[str, Any], devices: list[dict[str, Any]], count: int) -> bool:
        stored = without_times(found["spec"].get("devices", ()))
        # Without shares no pod can run here: each look tries again whether the feature gate is on.
        is_known = devices == self._wanted and _published(devices, self._stored or []).has_shares
        if count != 1 or stored != (self._stored if is_known else devices):
            return False
        self._wanted, self._stored = devices, stored
        return True

    def _write(
        self, found: dict[str, Any] | None, devices: list[dict[str, Any]], generation: int
    ) -> list[dict[str, Any]]:
        body = manifest(self._node, str(self._read_node().get("uid", "")), devices, generation)
        if found is None:
            written = self._api.post(RESOURCE_SLICES_PATH, body)
        else:
            # Somebody who wrote it meanwhile, such as a kubelet that removes it, is seen by this.
            body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            written = self._api.put(f"{RESOURCE_SLICES_PATH}/{_name(found)}", body)
        return without_times(written["spec"].get("devices", ()))

    def _read_node(self) -> Mapping[str, Any]:
        """Return the metadata of the Node."""
        return self._api.get(f"/api/v1/nodes/{self._node}").get("metadata") or {}

    def _list(self, selector: str) -> list[dict[str, Any]]:
        query = urlencode({"fieldSelector": selector, "limit": MAX_SLICES})
        items: list[dict[str, Any]] = self._api.get(f"{RESOURCE_SLICES_PATH}?{query}").get("items") or []
        return items


def _published(devices: list[dict[str, Any]], stored: list[dict[str, Any]]) -> Published:
    tainted = [each["name"] for each in devices if "taints" in each]
    kept = {each["name"]: each for each in stored}
    return Published(
        has_shares=all(kept.get(each["name"], each).get("allowMultipleAllocations") for each in devices),
        has_taints=all("taints" in kept.get(name, {"taints": ()}) for name in tainted),
    )


def _name(found: dict[str, Any]) -> str:
    return str(found["metadata"]["name"])
