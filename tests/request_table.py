"""What every request gets in every mode on every kind of card: slices, MiB, indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.webhook.support.gpu_pods import CONTAINERS, GPUS, MEMORY

CARDS = {"T4": 16384, "A10": 23028, "A100-40": 40960, "A100-80": 81920}
FRACTIONS = '{"0.125": 1, "0.2": 2, "0.500": 4, "0.750": 6, "0.875": 7, "1.000": 8, "2.000": 16}'
POLICY = f"""kind: Policy
name: NAME
resources: {{mode: MODE}}
memory: {{allowed: true}}
fractions: {FRACTIONS}
"""
DENIED = None
FRACTION = "clearml-injector/fraction"
Row = tuple[int, int | str | None] | None
"""Slices in all, and MiB of each GPU, or of each container; None of MiB where nothing is limited."""
_Table = dict[tuple[str, str], list[Row]]

# By kind of card, in the order of CARDS. MiB are rounded down: an eighth of the A10 is 2878.5.
ONE_GPU: _Table = {
    (FRACTION, "0.125"): [(1, 2048), (1, 2878), (1, 5120), (1, 10240)],
    (FRACTION, "0.2"): [(2, 3276), (2, 4605), (2, 8192), (2, 16384)],
    (FRACTION, "0.500"): [(4, 8192), (4, 11514), (4, 20480), (4, 40960)],
    (FRACTION, "0.875"): [(7, 14336), (7, 20149), (7, 35840), (7, 71680)],
    (MEMORY, "4Gi"): [(2, 4096), (2, 4096), (1, 4096), (1, 4096)],
    (MEMORY, "15000Mi"): [(8, 15000), (6, 15000), (3, 15000), (2, 15000)],
    (MEMORY, "20Gi"): [DENIED, (8, 20480), (4, 20480), (2, 20480)],
    (MEMORY, "80Gi"): [DENIED, DENIED, DENIED, (8, 81920)],
    (FRACTION, "0.250"): [DENIED] * 4,
    (MEMORY, "4G"): [DENIED] * 4,
    (FRACTION, "1.000"): [(8, None)] * 4,
}
TWO_GPUS: _Table = {
    (FRACTION, "0.125"): [(2, 2048), (2, 2878), (2, 5120), (2, 10240)],
    (FRACTION, "0.500"): [(8, 8192), (8, 11514), (8, 20480), (8, 40960)],
    (MEMORY, "4Gi"): [(4, 4096), (4, 4096), (2, 4096), (2, 4096)],
    (MEMORY, "20Gi"): [DENIED, (16, 20480), (8, 20480), (4, 20480)],
    (FRACTION, "1.000"): [DENIED] * 4,
}
PARTS = {FRACTION: "train=0.500,eval=0.250", MEMORY: "train=4Gi,eval=2Gi"}
TWO_CONTAINERS: _Table = {
    (FRACTION, "0.750"): [(6, "8192,4096"), (6, "11514,5757"), (6, "20480,10240"), (6, "40960,20480")],
    (FRACTION, "0.500"): [DENIED] * 4,
    (MEMORY, "6Gi"): [(3, "4096,2048"), (3, "4096,2048"), (2, "4096,2048"), (2, "4096,2048")],
    (MEMORY, "4Gi"): [DENIED] * 4,
}

# Mode mig: the eighths that a profile is worth, by card.
PROFILES: dict[str, dict[str, int]] = {
    "NVIDIA-A30": {"1g.6gb": 2, "2g.12gb": 4, "4g.24gb": 8},
    "NVIDIA-A100-SXM4-40GB": {"1g.5gb": 1, "1g.10gb": 2, "2g.10gb": 2, "3g.20gb": 4, "7g.40gb": 8},
    "NVIDIA-A100-SXM4-80GB": {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "7g.80gb": 8},
    "NVIDIA-H200": {"1g.18gb": 1, "1g.35gb": 2, "2g.35gb": 2, "3g.71gb": 4, "7g.141gb": 8},
}
MIG_POLICY = POLICY.replace("MODE", "mig").replace(', "2.000": 16', "")
# In the order of PROFILES. Of an instance the driver keeps a little: 80Gi are more than a whole 7g.80gb.
INSTANCES: dict[tuple[str, str], list[str | None]] = {
    (FRACTION, "0.125"): ["1g.6gb", "1g.5gb", "1g.10gb", "1g.18gb"],
    (FRACTION, "0.2"): ["1g.6gb", "1g.10gb", "1g.20gb", "1g.35gb"],
    (FRACTION, "0.500"): ["2g.12gb", "3g.20gb", "3g.40gb", "3g.71gb"],
    (FRACTION, "0.875"): ["4g.24gb", "7g.40gb", "7g.80gb", "7g.141gb"],
    (FRACTION, "1.000"): ["4g.24gb", "7g.40gb", "7g.80gb", "7g.141gb"],
    (MEMORY, "4Gi"): ["1g.6gb", "1g.5gb", "1g.10gb", "1g.18gb"],
    (MEMORY, "15000Mi"): ["4g.24gb", "3g.20gb", "1g.20gb", "1g.18gb"],
    (MEMORY, "20Gi"): ["4g.24gb", "7g.40gb", "3g.40gb", "1g.35gb"],
    (MEMORY, "80Gi"): [DENIED, DENIED, DENIED, "7g.141gb"],
    (FRACTION, "0.250"): [DENIED] * 4,
    (FRACTION, "2.000"): [DENIED] * 4,
    (MEMORY, "4G"): [DENIED] * 4,
}


@dataclass(frozen=True, slots=True)
class InstanceRequest:
    """A request in mode mig on one kind of card, and the profile that it gets."""

    product: str
    label: tuple[str, str]
    annotations: tuple[tuple[str, str], ...]
    profile: str | None

    @property
    def resource(self) -> str:
        """What the pod gets one of."""
        return f"nvidia.com/mig-{self.profile}"

    @property
    def eighths(self) -> int | None:
        """What the profile is worth; None where the pod is denied."""
        return PROFILES[self.product][self.profile] if self.profile is not None else None

    def __str__(self) -> str:
        return f"{_said(self.label, *self.annotations)} in mig on {self.product}"


def _said(*pairs: tuple[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in pairs)


def every_instance_request() -> Iterator[InstanceRequest]:
    """Every row of the table of instances; by strategy `single` see tests/modes/test_mig.py."""
    for label, row in INSTANCES.items():
        for kind, profile in zip(PROFILES, row, strict=True):
            yield InstanceRequest(kind, label, (), profile)
    for annotation in ((GPUS, "2"), (CONTAINERS, PARTS[FRACTION])):
        yield InstanceRequest("NVIDIA-H200", (FRACTION, "0.500"), (annotation,), DENIED)


def instance_nodes() -> Iterator[tuple[str, dict[str, int]]]:
    """Product and instances of every node that `every_instance_request` needs."""
    for kind, profiles in PROFILES.items():
        yield kind, {f"nvidia.com/mig-{profile}": 2 for profile in profiles}


@dataclass(frozen=True, slots=True)
class Request:
    """A request in one mode on one kind of card, and what it gets."""

    mode: str
    kind: str
    label: tuple[str, str]
    annotations: tuple[tuple[str, str], ...]
    row: Row
    gpus: int = 1

    @property
    def indices(self) -> list[int]:
        """Of the GPUs of an idle node; none where the kubelet chooses, or the pod is denied."""
        return list(range(self.gpus)) if self.row is not None and self.mode == "per-gpu" else []

    def __str__(self) -> str:
        return f"{_said(self.label, *self.annotations)} in {self.mode} on {self.kind}"


def every_request() -> Iterator[Request]:
    """Every row of the table, in every mode that there is a row for."""
    for mode in ("per-gpu", "pooled"):
        yield from _requests(mode, ONE_GPU)
        yield from _requests(mode, TWO_CONTAINERS, containers=True)
        for kind in CARDS:
            row = 16, None
            yield Request(mode, kind, (FRACTION, "2.000"), (), row, 2)
    yield from _requests("per-gpu", TWO_GPUS, gpus=2)
    # The kubelet might put all slices on one.
    for label in TWO_GPUS:
        yield Request("pooled", "A100-80", label, ((GPUS, "2"),), DENIED, 2)


def _requests(mode: str, table: _Table, *, gpus: int = 1, containers: bool = False) -> Iterator[Request]:
    for label, rows in table.items():
        annotations = ((GPUS, str(gpus)),) if gpus > 1 else ()
        if containers:
            annotations = ((CONTAINERS, PARTS[label[0]]),)
        for kind, row in zip(CARDS, rows, strict=True):
            yield Request(mode, kind, label, annotations, row, gpus)
