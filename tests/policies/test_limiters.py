"""The presets, and what a limiter file may say."""

import pytest

from policies.loading.loader import parse_policies
from policies.model.effective import EnvVar
from tests.policies.support import limiter


def test_hami_core_limits_every_device_where_the_kubelet_chooses():
    assert limiter("hami-core", "pooled").env[-1] == EnvVar("CUDA_DEVICE_MEMORY_LIMIT", "{memory_mib}m")


@pytest.mark.parametrize(
    ("image", "mib"),
    [
        ("clearml/fractional-gpu:u22-cu12.3-8gb", 8192),
        ("docker.io/clearml/fractional-gpu:u20-cu11.1-12gb", 12288),
        ("mirror.example:5000/hub/clearml/fractional-gpu:u22-cu12.3-2gb@sha256:" + "a" * 64, 2048),
        ("clearml/fractional-gpu:u22-cu12.3", None),
        ("clearml/fractional-gpu:u22-cu12.3-0gb", None),
        ("clearml/fractional-gpu:u22-cu12.3-8gb-mine", None),
        ("evil/fractional-gpu:u22-cu12.3-2gb", None),
        ("python:3.12", None),
    ],
)
def test_clearml_images_say_their_limit_in_their_tag(image, mib):
    assert limiter("clearml-image").limit_of(image) == mib


def test_a_file_with_a_presets_name_takes_its_place():
    own = "kind: Limiter\nname: none\nenv: {SHARE: '{percent}'}\n"
    assert limiter("none", own=own).env == (EnvVar("SHARE", "{percent}"),)


def test_a_modes_variable_goes_before_the_common_one():
    own = "kind: Limiter\nname: own\nenv: {A: common, B: '1'}\nmodes: {pooled: {env: {A: pooled}}}\n"
    assert limiter("own", "pooled", own=own).env == (EnvVar("A", "pooled"), EnvVar("B", "1"))
    assert limiter("own", own=own).env == (EnvVar("A", "common"), EnvVar("B", "1"))


@pytest.mark.parametrize(
    ("compute", "mode", "value"),
    [
        ("none", "per-gpu", None),
        ("same-as-memory", "per-gpu", "{percent}"),
        ("same-as-memory", "pooled", "{percent}"),
        ("30", "per-gpu", "30"),
    ],
)
def test_compute_is_hami_cores_variable_for_every_gpu(compute, mode, value):
    default = f"kind: Policy\nname: default\nresources: {{mode: {mode}}}\ncompute: {compute}\n"
    found = parse_policies({"default.yaml": default.encode()}).resolve("team", None, None)
    assert {each.name: each.value for each in found.limiter.env}.get("CUDA_DEVICE_SM_LIMIT") == value
