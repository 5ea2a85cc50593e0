"""A stand-in for NVIDIA's MIG manager and device plugin: their label protocol, delays and failures.

As in mig-parted 0.15: a change of the label begins the work; a configuration that is not in the mounted file
fails at once; cards that are divided so already stay; every other card is cleared as a whole before its new
instances are made, which the driver refuses where one is in use; the device plugin is away meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import yaml

from modes.mig_geometry import geometry
from modes.mig_profiles import MIG_RESOURCE_PREFIX, card_of_product

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"


@dataclass
class Answer:
    """What changes of a node: labels, and the instances that it advertises."""

    labels: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] | None = None


class MigManagerStandIn:
    """The MIG manager of one node; `turn` is called again and again with what the API server holds."""

    def __init__(self, work_turns: int = 2, mount_turns: int = 1) -> None:
        """Take so many turns to divide a card, and to see a change of the ConfigMap."""
        self.cards = None
        self.used = {}
        """Pod's uid to (card, profile) of each of its instances."""
        self.refusals = 0
        """Configurations by which an instance in use would have been destroyed."""
        self.divided = 0
        self.fail_next = 0
        self._work_turns, self._mount_turns = work_turns, mount_turns
        self._files = []
        self._seen = None
        self._left = None

    def turn(self, node, pods, file) -> Answer:
        """Do what the MIG manager would do next."""
        labels = node["metadata"]["labels"]
        if self.cards is None:
            self.cards = [()] * int(labels[COUNT])
        self._files = [*self._files, file][-1 - self._mount_turns :]
        self._place(pods)
        wanted = labels.get(CONFIG)
        if wanted and wanted != self._seen:
            self._seen = wanted
            return self._begin(wanted)
        if self._left is None:
            return Answer(allocatable=self._advertised())
        if self._left > 0:
            self._left -= 1
            return Answer()
        return self._end(wanted)

    def _begin(self, wanted):
        target = self._target(wanted)
        if target is None:
            return Answer({STATE: "failed"})
        if target == self.cards:
            return Answer({STATE: "success"})
        self._left = self._work_turns
        return Answer({STATE: "pending"}, dict.fromkeys(self._advertised(), "0"))

    def _end(self, wanted):
        self._left = None
        target = self._target(wanted)
        in_use = {card for held in self.used.values() for card, _ in held}
        changed = [index for index, names in enumerate(self.cards) if target and target[index] != names]
        if set(changed) & in_use:
            self.refusals += 1
            return Answer({STATE: "failed"})
        if target is None or self.fail_next:
            self.fail_next = max(0, self.fail_next - 1)
            for index in changed:
                self.cards[index] = ()
            return Answer({STATE: "failed"})
        self.cards = list(target)
        self.divided += 1
        return Answer({STATE: "success"})

    def _target(self, wanted):
        entries = _entries(self._files[0])
        if wanted not in entries:
            return None
        target = list(self.cards)
        for entry in entries[wanted]:
            devices = range(len(target)) if entry["devices"] == "all" else entry["devices"]
            for index in devices:
                made = Counter(entry.get("mig-devices", {})).elements() if entry["mig-enabled"] else ()
                target[index] = geometry(made)
        return target

    def _advertised(self):
        """Instances by resource, and 0 for what the card could have: the kubelet forgets no resource."""
        counts = Counter(name for names in self.cards for name in names)
        return {
            f"{MIG_RESOURCE_PREFIX}{name.replace('+', '.')}": str(count) for name, count in counts.items()
        }

    def _place(self, pods):
        """Give new pods instances that are free, on the last card that has one: the worst for the planner."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self.used = {uid: held for uid, held in self.used.items() if uid in uids}
        for pod in pods:
            if pod["metadata"]["uid"] not in self.used:
                self.used[pod["metadata"]["uid"]] = self._instances(pod)

    def _instances(self, pod):
        given = []
        for container in pod["spec"]["containers"]:
            for resource, amount in container.get("resources", {}).get("requests", {}).items():
                if resource.startswith(MIG_RESOURCE_PREFIX):
                    name = resource.removeprefix(MIG_RESOURCE_PREFIX).replace(".me", "+me")
                    given += [(self._free_card(name, given), name) for _ in range(int(amount))]
        return given

    def _free_card(self, name, given):
        taken = Counter([*given, *(each for held in self.used.values() for each in held)])
        free = [index for index, names in enumerate(self.cards) if names.count(name) > taken[index, name]]
        assert free, f"a pod was bound for {name}, of which none is free"
        return free[-1]


@cache
def _entries(file):
    return (yaml.safe_load(file) or {}).get("mig-configs", {}) if file else {}


def gpu_node_labels(product: str, cards: int) -> dict[str, str]:
    """Labels that GPU feature discovery writes on such a node."""
    assert card_of_product(product), product
    return {PRODUCT: product, COUNT: str(cards), "nvidia.com/mig.strategy": "mixed"}
