"""The doctor on what limits shares on nodes: limiter, driver, MIG profiles."""

import msgspec
import pytest

from controller.watch.gpu_node import UnlimitedContainer
from doctor.seen import NotRead
from tests.doctor.support import lines, node, says

TRAIN = UnlimitedContainer("team", "train", "main", 3, 5120)
B300 = {"nvidia.com/gpu.product": "NVIDIA-B300-SXM6-AC"}
ESCAPES = "docs/getting-started/agent.md#what-still-escapes"
NO_FUNCTION = "GPU 0: nvmlDeviceGetMemoryLimits_v1: Function Not Found"
CONFIG = "nvidia.com/mig.config all-1g.10gb"


def reported(**said):
    return {"reports": {"gpu-1": says(**said)}}


def divided(state, **more):
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": state}
    return {"nodes": (node(labels=labels, gpus=()),), **more}


def test_a_program_without_its_limiter_is_named_with_its_pod_and_what_to_do():
    advice = "use an image with glibc 2.28 or newer that is not Alpine, and no static binaries"
    program = "container main of pod team/train uses GPU 3 without the limiter of its 5120 MiB"
    assert lines("unlimited", **reported(unlimited=(TRAIN,), count=40)) == [
        ("failed", f"node gpu-1: {program} -- {advice}"),
        ("failed", f"node gpu-1: 39 more containers run without their limiter -- {advice}"),
    ]


FINDINGS = {
    "agents look and find none": ("unlimited", reported(), "ok", ""),
    "no agent looks": ("unlimited", reported(unlimited=None), "skipped", "agent.podMetrics"),
    "no report": ("unlimited", {"reports": {}}, "ok", ""),
    "no right": ("unlimited", {"reports": NotRead("you lack the right")}, "skipped", "you lack the right"),
    "the driver does not limit": (
        *("driver-limits", reported(driver_limits=NO_FUNCTION), "warning"),
        f"{NO_FUNCTION} -- upgrade driver or toolkit there",
    ),
    "the library alone, until the driver does": (
        *("driver-limits", reported(driver_limits=NO_FUNCTION, limit="hami-core"), "warning"),
        "until then only hami-core limits",
    ),
    "the library, as the driver is not used": (
        *("driver-limits", reported(driver_limits=f"not used: {NO_FUNCTION}", limit="hami-core"), "ok"),
        f"limited by hami-core, which some programs escape ({ESCAPES}); the driver is not used: GPU",
    ),
    "driver and library": (
        *("driver-limits", reported(driver_limits="held", limit="driver and hami-core"), "ok"),
        "node gpu-1: shares are limited by driver and hami-core: only managed memory escapes",
    ),
    "nothing has to be limited": ("driver-limits", reported(), "ok", "limits shares where it has to"),
    "divided as asked for": ("mig-state", divided("success"), "ok", ""),
    "another node's division": ("mig-state", divided("failed", node="gpu-2"), "ok", ""),
    "a division that is pending": (
        *("mig-state", divided("pending"), "warning", f"{CONFIG} is pending: until then its cards take no"),
    ),
    "a division that failed": (
        *("mig-state", divided("failed"), "failed", f"the MIG manager could not apply {CONFIG} -- "),
    ),
}


@pytest.mark.parametrize(("check", "changed", "level", "what"), FINDINGS.values(), ids=FINDINGS)
def test_what_limits_shares_is_judged(check, changed, level, what):
    [(seen_level, text)] = lines(check, **changed)
    assert (seen_level, what in text) == (level, True), text


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
    [(level, text)] = lines("mig-profiles", nodes=nodes, **reported(**report))
    assert level == "warning"
    assert text.startswith("node gpu-1: the MIG profiles of NVIDIA-B300-SXM6-AC are not known")
    known = reported(**report, mig_profiles=(msgspec.Raw(b"{}"),))
    assert lines("mig-profiles", nodes=nodes, **known)[0][0] == "ok"
