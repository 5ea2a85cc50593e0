"""The presets, and what a limiter file may say."""

import dataclasses

import pytest
from msgspec.structs import replace

from policies.loading.sources import presets
from policies.model.effective import EnvVar, ImageChoice
from tests.policies.support import policy_set, problems


def limiter(name, mode="per-gpu", **files):
    policy = f"kind: Policy\nname: a\nnamespaces: [n]\nlimiter: {name}\nresources: {{mode: {mode}}}\n"
    return policy_set(a=policy, **files).resolve("n", None, None).limiter


def test_the_presets_are_these():
    assert sorted(presets()) == ["clearml-image", "hami-core", "none", "nvidia-driver"]
    assert all(preset.needs for preset, _ in presets().values())


def test_hami_core_limits_device_zero_per_gpu_and_every_device_pooled():
    common = [
        EnvVar("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu-cache/{container}.cache"),
        EnvVar("LIBCUDA_LOG_LEVEL", "1"),
    ]
    assert limiter("hami-core").env == (*common, EnvVar("CUDA_DEVICE_MEMORY_LIMIT_0", "{memory_mib}m"))
    assert limiter("hami-core", "pooled").env == (
        *common,
        EnvVar("CUDA_DEVICE_MEMORY_LIMIT", "{memory_mib}m"),
    )


def test_hami_core_brings_library_cache_and_an_init_container_that_sees_no_gpu():
    hami = limiter("hami-core")
    assert hami.preload == f"{hami.library.mount_path}/libvgpu.so"
    assert (hami.cache.mount_path, hami.cache.size_limit) == ("/usr/local/vgpu-cache", "8Mi")
    init = hami.init_container
    assert init.image == "docker.io/projecthami/hamicore:v2.10.0"
    assert init.command == ("sh", "-c", "cp /k8s-vgpu/lib/nvidia/libvgpu.so.* /usr/local/vgpu/libvgpu.so")
    assert init.env == (EnvVar("NVIDIA_VISIBLE_DEVICES", "void"),)
    assert init.run_as_user == 65534


def test_nvidia_driver_says_request_and_limit_in_plain_mib():
    assert limiter("nvidia-driver").env == (
        EnvVar("NVIDIA_GPU_MEMORY_REQUEST", "{memory_mib}"),
        EnvVar("NVIDIA_GPU_MEMORY_LIMIT", "{memory_mib}"),
    )


def test_none_does_nothing():
    nothing = limiter("none")
    assert (nothing.env, nothing.preload, nothing.library, nothing.cache) == ((), None, None, None)
    assert (nothing.init_container, nothing.host_pid, nothing.image_pattern) == (None, False, None)


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


def test_a_pattern_whose_group_holds_no_number_matches_no_image():
    own = "kind: Limiter\nname: own\nimage: {pattern: 'x/y:(big)?.*'}\n"
    assert [limiter("own", own=own).limit_of(image) for image in ("x/y:big", "x/y:small")] == [None, None]


def test_clearml_image_needs_host_pid():
    assert limiter("clearml-image").host_pid is True


def test_of_several_images_the_largest_that_fits_is_taken():
    text = """
kind: Limiter
name: sized
image:
  pattern: ".*-([0-9]+)gb"
  choices: {"x/y:2gb": 2048, "x/y:8gb": 8192, "x/y:4gb": 4096}
"""
    sized = limiter("sized", sized=text)
    assert sized.largest_image(8191) == ImageChoice(4096, "x/y:4gb")
    assert sized.largest_image(8192) == ImageChoice(8192, "x/y:8gb")
    assert sized.largest_image(2047) is None


def test_a_file_with_a_presets_name_takes_its_place():
    own = "kind: Limiter\nname: none\nenv: {SHARE: '{percent}'}\n"
    assert limiter("none", own=own).env == (EnvVar("SHARE", "{percent}"),)


def test_a_modes_variable_goes_before_the_common_one():
    own = "kind: Limiter\nname: own\nenv: {A: common, B: '1'}\nmodes: {pooled: {env: {A: pooled}}}\n"
    assert limiter("own", "pooled", own=own).env == (EnvVar("A", "pooled"), EnvVar("B", "1"))
    assert limiter("own", own=own).env == (EnvVar("A", "common"), EnvVar("B", "1"))


MIRROR = "kind: Limiter\nname: hami-core\nextends: hami-core\n"


@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
def test_a_preset_from_a_mirror_differs_in_its_image_alone(mode):
    own = f"{MIRROR}initContainer: {{image: registry.local/hamicore:v2.10.0}}\n"
    preset = limiter("hami-core", mode)
    image = replace(preset.init_container, image="registry.local/hamicore:v2.10.0")
    assert limiter("hami-core", mode, own=own) == dataclasses.replace(preset, init_container=image)


def test_a_preset_for_another_user_may_have_a_name_of_its_own():
    part = "initContainer: {runAsUser: 1000700000, env: {A: b}}\n"
    own = f"kind: Limiter\nname: openshift\nextends: hami-core\n{part}"
    found, preset = limiter("openshift", own=own), limiter("hami-core")
    assert (found.name, found.init_container.run_as_user) == ("openshift", 1000700000)
    assert set(found.init_container.env) == {*preset.init_container.env, EnvVar("A", "b")}
    assert (found.env, found.library, found.cache) == (preset.env, preset.library, preset.cache)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env: {A: b}", "own.yaml:4: env: cannot stand beside extends: write needs and initContainer only"),
        ("ldPreload: /x.so", "own.yaml:4: ldPreload: cannot stand beside extends"),
        ("initContainer: {image: registry.local/hamicore}", "own.yaml:4: initContainer.image"),
        ("initContainer: {imag: a/b:1}", "own.yaml:4: initContainer.imag: unknown key (did you"),
        ("initContainer: none", "own.yaml:4: initContainer"),
        ("initContainer: {env: {NVIDIA_VISIBLE_DEVICES: all}}", "must hold NVIDIA_VISIBLE_DEVICES: void"),
    ],
)
def test_what_may_not_stand_beside_extends(text, expected):
    [problem] = problems(own=f"{MIRROR}{text}\n")
    assert expected in problem


def test_only_a_preset_with_an_init_container_is_extended():
    assert problems(own="kind: Limiter\nname: own\nextends: nvidia-driver\n") == [
        "own.yaml:3: extends: \"nvidia-driver\" should be 'hami-core'"
    ]


INIT = """\
initContainer: {{image: 'a/b:{tag}', command: [cp], env: {env}}}
library: {{mountPath: /lib/x, sizeLimit: 1Mi}}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "env: {CUDA_DEVICE_MEMORY_LIMIT_0: '{memory_mib}Mi'}",
            'CUDA_DEVICE_MEMORY_LIMIT_0 must be "{memory_mib}m"',
        ),
        ("env: {CUDA_DEVICE_MEMORY_LIMIT: '4Gi'}", 'CUDA_DEVICE_MEMORY_LIMIT must be "{memory_mib}m"'),
        ("env: {NVIDIA_GPU_MEMORY_LIMIT: '{memory_mib}m'}", 'NVIDIA_GPU_MEMORY_LIMIT must be "{memory_mib}"'),
        ("env: {LD_PRELOAD: /x.so}", "write ldPreload"),
        ("env: {A: '{memory}'}", "unknown placeholder {memory}"),
        ("env: {A=B: x}", "must be a name of letters, digits and _"),
        ("ldPreload: lib/x.so", '"lib/x.so" must be an absolute, normal path'),
        ("cache: {mountPath: /a/../b, sizeLimit: 8Mi}", '"/a/../b" must be an absolute, normal path'),
        ("cache: {mountPath: /, sizeLimit: 8Mi}", '"/" must be an absolute, normal path'),
        ("cache: {mountPath: /a, sizeLimit: 8MB}", 'cache.sizeLimit: "8MB"'),
        ("library: {mountPath: /a, sizeLimit: 8Mi}", "initContainer and library need each other"),
        (
            INIT.format(tag="latest", env="{NVIDIA_VISIBLE_DEVICES: void}"),
            "must be pinned to a tag other than latest",
        ),
        (INIT.format(tag="v1", env="{}"), "must hold NVIDIA_VISIBLE_DEVICES: void"),
        (
            INIT.format(tag="v1", env="{NVIDIA_VISIBLE_DEVICES: void}")
            + "\ncache: {mountPath: /lib, sizeLimit: 1Mi}",
            'cache.mountPath: "/lib" and library.mountPath "/lib/x" overlap',
        ),
        ("image: {pattern: '(a)(b)'}", "must have one group, the GB that the image limits to; it has 2"),
        ("image: {pattern: '('}", "is not a regular expression"),
        ("image: {pattern: '(a)', choices: {'a/b': 2048}}", "must be pinned to a tag"),
    ],
)
def test_a_limiter_that_breaks_a_rule_is_told_which(text, expected):
    assert expected in "\n".join(problems(own=f"kind: Limiter\nname: own\n{text}\n"))


def test_a_root_init_container_is_refused():
    text = INIT.format(tag="v1", env="{NVIDIA_VISIBLE_DEVICES: void}").replace("[cp]", "[cp], runAsUser: 0")
    assert "initContainer.runAsUser" in "\n".join(problems(own=f"kind: Limiter\nname: own\n{text}\n"))


def test_a_limiter_that_names_the_index_does_not_fit_pooled_mode():
    own = "kind: Limiter\nname: own\nenv: {WHICH: '{index}'}\n"
    policy = "kind: Policy\nname: a\nlimiter: own\nresources: {mode: pooled}\n"
    assert problems(own=own, a=policy) == [
        'a.yaml:3: limiter: "own" uses {index} in WHICH, but mode pooled knows no index'
    ]
