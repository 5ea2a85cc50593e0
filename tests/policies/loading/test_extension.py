"""A limiter that is a preset but for its init container."""

import dataclasses

import pytest

from tests.policies.support import limiter, problems

MIRROR = "kind: Limiter\nname: hami-core\nextends: hami-core\n"


@pytest.mark.parametrize("mode", ["per-gpu", "pooled"])
def test_a_preset_from_a_mirror_differs_in_its_image_alone(mode):
    own = f"{MIRROR}initContainer: {{image: registry.local/hamicore:v2.10.0}}\n"
    preset = limiter("hami-core", mode)
    image = preset.init_container.model_copy(update={"image": "registry.local/hamicore:v2.10.0"})
    assert limiter("hami-core", mode, own=own) == dataclasses.replace(preset, init_container=image)


def test_a_preset_for_another_user_may_have_a_name_of_its_own():
    part = "initContainer: {runAsUser: 1000700000, env: {A: b}}\n"
    own = f"kind: Limiter\nname: openshift\nextends: hami-core\n{part}"
    found, preset = limiter("openshift", own=own), limiter("hami-core")
    assert (found.name, found.init_container.run_as_user) == ("openshift", 1000700000)
    assert found.init_container.env == preset.init_container.env | {"A": "b"}
    assert (found.env, found.library, found.cache) == (preset.env, preset.library, preset.cache)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("env: {A: b}", "own.yaml:4: env: is not allowed with extends: set only needs and initContainer"),
        ("ldPreload: /x.so", "own.yaml:4: ldPreload: is not allowed with extends"),
        ("initContainer: {image: registry.local/hamicore}", "own.yaml:4: initContainer.image"),
        ("initContainer: {imag: a/b:1}", "own.yaml:4: initContainer.imag: unknown key (did you"),
        ("initContainer: none", "own.yaml:4: initContainer"),
        ("initContainer: {env: {NVIDIA_VISIBLE_DEVICES: all}}", "must set NVIDIA_VISIBLE_DEVICES: void"),
    ],
)
def test_what_may_not_be_combined_with_extends(text, expected):
    [problem] = problems(own=f"{MIRROR}{text}\n")
    assert expected in problem


def test_only_a_preset_with_an_init_container_is_extended():
    assert problems(own="kind: Limiter\nname: own\nextends: nvidia-driver\n") == [
        'own.yaml:3: extends: "nvidia-driver" must be one of hami-core'
    ]
