"""The doctor on what limits shares on nodes: limiter, driver, MIG profiles."""

import msgspec
import pytest

from controller.watch.gpu_node import UnlimitedContainer
from doctor.seen import NotRead
from tests.doctor.support import lines, node, says

TRAIN = UnlimitedContainer("team", "train", "main", 3, 5120)
PRODUCT = "nvidia.com/gpu.product"
B300 = {PRODUCT: "NVIDIA-B300-SXM6-AC"}


def test_a_program_without_its_limiter_is_named_with_its_pod_and_what_to_do():
    advice = "use an image with glibc 2.28 or newer that is not Alpine, and no static binaries"
    program = "container main of pod team/train uses GPU 3 without the limiter of its 5120 MiB"
    assert lines("unlimited", reports={"gpu-1": says(unlimited=(TRAIN,), count=40)}) == [
        ("failed", f"node gpu-1: {program} -- {advice}"),
        ("failed", f"node gpu-1: 39 more containers run without their limiter -- {advice}"),
    ]


def test_where_agents_look_and_find_nothing_all_is_well_and_where_none_looks_nobody_knows():
    assert lines("unlimited", reports={"gpu-1": says(unlimited=())})[0][0] == "ok"
    [(level, text)] = lines("unlimited", reports={"gpu-1": says(unlimited=None)})
    assert (level, "agent.podMetrics" in text) == ("skipped", True)
    assert lines("unlimited", reports={})[0][0] == "ok"
    assert lines("unlimited", reports=NotRead("you lack the right"))[0][0] == "skipped"


ESCAPES = "docs/getting-started/agent.md#what-still-escapes"
NO_FUNCTION = "GPU 0: nvmlDeviceGetMemoryLimits_v1: Function Not Found"


@pytest.mark.parametrize(
    ("report", "level", "what"),
    [
        ({"driver_limits": NO_FUNCTION}, "warning", f"{NO_FUNCTION} -- upgrade driver or toolkit there"),
        (
            {"driver_limits": f"not used: {NO_FUNCTION}", "limit": "hami-core"},
            "ok",
            f"limited by hami-core, which some programs escape ({ESCAPES}); the driver is not used: GPU",
        ),
        (
            {"driver_limits": "held", "limit": "driver and hami-core"},
            "ok",
            "node gpu-1: shares are limited by driver and hami-core: only managed memory escapes",
        ),
        (
            {"driver_limits": NO_FUNCTION, "limit": "hami-core"},
            "warning",
            "until then hami-core alone limits",
        ),
        ({}, "ok", "the driver limits shares where it has to"),
    ],
)
def test_each_node_says_what_limits_its_shares_and_what_escapes(report, level, what):
    [(found, text)] = lines("driver-limits", reports={"gpu-1": says(**report)})
    assert found == level
    assert what in text


@pytest.mark.parametrize(
    ("labels", "fact", "report"),
    [
        ({**B300, "nvidia.com/mig.config": "all-1g.34gb"}, {}, {}),
        (B300, {"instances": (("nvidia.com/mig-1g.34gb", 7),)}, {}),
        (B300, {}, {"has_mig": True}),
    ],
)
def test_a_divided_card_whose_profiles_nobody_knows_is_a_warning(labels, fact, report):
    nodes = (node(labels=labels, **fact),)
    [(level, text)] = lines("mig-profiles", nodes=nodes, reports={"gpu-1": says(**report)})
    assert level == "warning"
    assert text.startswith("node gpu-1: the MIG profiles of NVIDIA-B300-SXM6-AC are not known")
    reported = {"gpu-1": says(**report, mig_profiles=(msgspec.Raw(b"{}"),))}
    assert lines("mig-profiles", nodes=nodes, reports=reported)[0][0] == "ok"


@pytest.mark.parametrize(
    ("state", "level", "what"),
    [
        ("success", "ok", ""),
        ("pending", "warning", "nvidia.com/mig.config all-1g.10gb is pending: until then its cards take no"),
        ("rebooting", "warning", "nvidia.com/mig.config all-1g.10gb is rebooting"),
        ("failed", "failed", "the MIG manager could not apply nvidia.com/mig.config all-1g.10gb"),
    ],
)
def test_a_division_that_is_pending_or_failed_is_named(state, level, what):
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": state}
    [(seen_level, text)] = lines("mig-state", nodes=(node(labels=labels, gpus=()),))
    assert seen_level == level
    assert what in text
    assert lines("mig-state", nodes=(node(labels=labels),), node="gpu-2")[0][0] == "ok"
