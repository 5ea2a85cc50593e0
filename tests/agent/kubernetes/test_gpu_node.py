"""The GpuNode of a node: all that is written is in its schema, and it is bounded."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from agent.container_use import ContainerUse
from agent.containers import ContainerName
from agent.gpu import Gpu
from agent.kubernetes.gpu_node import MAX_REASON, MAX_TEXT, MAX_UNLIMITED, MAX_USES, WITHOUT_LIMITER, manifest
from agent.settings import LimiterPart
from agent.state import HELD, AgentState, Held, Unlimited
from controller.watch.gpu_node import report_from_object, with_report
from kube.names import GPU_MEMORY_LABEL, GPU_PRODUCT_LABEL
from ledger.placement.cards import layout
from modes.mig_profiles import CARDS, MigProfile
from tests.ledger.cluster import gpu_node

CRD = Path(__file__).parents[3] / "charts" / "fraction-injector" / "files" / "crds" / "gpunodes.yaml"
SMALL = Gpu(0, "GPU-a", "NVIDIA A100-40GB", 40960)
PROFILE = MigProfile("1g.34gb", 1, 1, 34048, (0, 1, 2), 3)
MIG = Gpu(1, "GPU-b", "NVIDIA A100-80GB", 81920, mig=True)


def reported(
    *gpus, missing=None, shared=(SMALL,), whole=(), offer="device-plugin", limiter=WITHOUT_LIMITER, **known
):
    """The object that is written of these GPUs, by default SMALL, and such a state."""
    state = AgentState(shared)
    state.set_registration("gpu-0", missing)
    for name, value in known.items():
        setattr(state, name, value)
    offering = {"whole": whole, "offer": offer, "limiter": limiter}
    return manifest("gpu-1", "uid-1", gpus or [SMALL], state, "boot-1", **offering)


def status(*gpus, **known):
    return reported(*gpus, **known)["status"]


@pytest.mark.parametrize(("memory", "reserved"), [(40960, 583), (16384, 450), (81920, 1024)])
def test_a_card_is_what_its_label_says_whatever_the_driver_keeps_of_it(memory, reserved):
    """GPU feature discovery writes all of the memory into the label, and placing compares the two."""
    card = replace(SMALL, memory_mib=memory, reserved_mib=reserved)
    labels = {GPU_MEMORY_LABEL: str(memory), GPU_PRODUCT_LABEL: "NVIDIA-A100-40GB"}
    known = gpu_node("gpu-1", 1, memory, labels=labels)
    node = with_report(known, report_from_object(reported(card)), "serving")
    assert node.cards == ((0, memory),)
    assert layout(node) is None


def test_every_gpu_is_listed_with_its_memory_its_kind_its_health_and_what_is_held_of_it():
    gpus = replace(SMALL, numa_node=0), replace(MIG, reserved_mib=583)
    found = status(*gpus, held={"GPU-a": Held(5, 2)}, whole={"GPU-b"}, elsewhere={"GPU-a": "Xid 79"})
    common = {"reservedMiB": 0, "mig": False, "healthy": True}
    small = {"index": 0, "uuid": "GPU-a", "model": SMALL.model, "memoryMiB": 40960, "numaNode": 0}
    large = {"index": 1, "uuid": "GPU-b", "model": MIG.model, "memoryMiB": 81920}
    assert found["gpus"] == [
        {**common, **small, "healthy": False, "why": "Xid 79", "heldSlices": 5, "heldPods": 2},
        {**common, **large, "reservedMiB": 583, "mig": True, "whole": True},
    ]
    assert (found["gpuCount"], found["unhealthy"], found["bootID"]) == (2, 1, "boot-1")


def test_a_missing_registration_has_its_reason():
    found = status(missing="no library")
    assert (found["registered"], found["missing"]) == (False, "gpu-0: no library")
    assert status()["registered"] is True


def test_the_controller_learns_the_mig_profiles_of_a_node_with_cards_of_one_model():
    cards = [replace(MIG, index=index, uuid=f"GPU-{index}", mig_profiles=(PROFILE,)) for index in (0, 1)]
    node = with_report(gpu_node("gpu-1", 0, None), report_from_object(reported(*cards)), "serving")
    assert node.mig_card.profiles == (PROFILE,)
    assert "migProfiles" not in status(SMALL, *cards)
    unknown = replace(PROFILE, memory=3, starts=(0, 3, 6, 9))  # the schema would refuse the report
    assert "migProfiles" not in status(replace(MIG, mig_profiles=(unknown,)))


def test_the_schema_takes_names_of_profiles_only():
    """A name becomes a key of the file that mig-parted reads for all nodes."""
    known = CRD.read_text().partition("migProfiles")[2]
    pattern = re.search(r"name: \{type: string, .*?pattern: '(.*?)'", known)[1]
    names = [profile.name for known_card in CARDS for profile in known_card.profiles]
    wrong = ["all", "1g.10gb: 2"]
    assert [name for name in [*names, *wrong] if not re.search(pattern, name)] == wrong


def test_the_schema_knows_every_field_that_is_written():
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["status"]["properties"]
    found = status(
        replace(SMALL, numa_node=1, mig_profiles=(PROFILE,)),
        elsewhere={"GPU-a": "Xid 79"},
        missing="no library",
        held={"GPU-a": Held(5, 2)},
        whole={"GPU-a"},
        unlimited=[unlimited("a")],
        driver_limits=HELD,
        limiter=LimiterPart("hami-core"),
        uses=[use("a", idle_since=0)],
        uses_measured=60,
        offer="dra",
    )
    assert found.keys() == known.keys()
    assert found["gpus"][0].keys() == known["gpus"]["items"]["properties"].keys()
    assert found["migProfiles"][0].keys() == known["migProfiles"]["items"]["properties"].keys()
    for name in ("unlimited", "usage"):
        of_schema = known[name]["properties"]
        assert found[name].keys() == of_schema.keys()
        assert found[name]["containers"][0].keys() == of_schema["containers"]["items"]["properties"].keys()
    assert known["usage"]["properties"]["containers"]["maxItems"] == MAX_USES


DRIVER = LimiterPart("nvidia-driver", (("NVIDIA_GPU_MEMORY_LIMIT", "{memory_mib}"),))
LACKS = "not used: Function Not Found"


@pytest.mark.parametrize(
    ("gpus", "known", "limited"),
    [
        ([SMALL], {"driver_limits": LACKS, "limiter": DRIVER}, ("Function Not Found", None)),
        ([SMALL], {"driver_limits": HELD, "limiter": DRIVER}, (HELD, "driver")),
        ([SMALL], {"driver_limits": HELD, "limiter": LimiterPart("hami")}, (HELD, "driver and hami")),
        # No card of a node without shares lacks the driver's hook.
        ([MIG], {"shared": (), "driver_limits": HELD, "limiter": LimiterPart("hami")}, (None, None)),
    ],
)
def test_what_limits_shares_is_reported(gpus, known, limited):
    found = status(*gpus, **known)
    assert (found.get("driverLimits"), found.get("limit")) == limited


def unlimited(pod):
    return Unlimited("team", pod, "uid", "main", "c" * 64, 0, 5120)


def use(pod, **more):
    return replace(ContainerUse(ContainerName("team", pod, "main"), 0, 5120, 100, 300, 200, 7, 0), **more)


def test_what_containers_use_is_counted_and_the_first_are_named():
    """A time that the driver does not report is not written."""
    last = use("pod-1", busy_percent=None, idle_since=60)
    more = [use(f"pod-{number}") for number in range(2, MAX_USES + 1)]
    found = status(uses=[*more, last, use("pod-0")], uses_measured=180)["usage"]
    assert (found["count"], len(found["containers"])) == (MAX_USES + 1, MAX_USES)
    pod = {"namespace": "team", "container": "main", "gpu": 0, "memoryMiB": 5120, "usedMiB": 100}
    pod |= {"peakMiB": 300, "p95MiB": 200, "since": "1970-01-01T00:00:00Z"}
    assert found["containers"][:2] == [
        {**pod, "pod": "pod-0", "busyPercent": 7},
        {**pod, "pod": "pod-1", "idleSince": "1970-01-01T00:01:00Z"},
    ]
    assert found["measured"] == "1970-01-01T00:03:00Z"


def test_what_runs_without_its_limiter_is_counted_and_the_first_are_named():
    found = status(unlimited=[unlimited(f"pod-{number:03}") for number in reversed(range(100))])["unlimited"]
    pod = {"namespace": "team", "container": "main", "gpu": 0, "memoryMiB": 5120}
    first = [{**pod, "pod": f"pod-{number:03}"} for number in range(MAX_UNLIMITED)]
    assert found == {"count": 100, "containers": first}


def test_what_was_not_searched_or_requested_is_not_reported():
    assert not {"unlimited", "driverLimits", "usage", "offer"} & status().keys()
    assert status(unlimited=())["unlimited"] == {"count": 0, "containers": []}
    assert status(offer="dra")["offer"] == "dra"


def test_reasons_are_as_short_as_the_schema_wants_them():
    found = status(missing="y" * 5000, driver_limits="x" * 999, elsewhere={"GPU-a": "x" * 5000})
    assert len(found["gpus"][0]["why"]) == len(found["missing"]) == MAX_TEXT
    assert len(found["driverLimits"]) == MAX_REASON
