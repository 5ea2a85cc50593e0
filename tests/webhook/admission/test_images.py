"""Images that limit themselves must fit the share."""

import pytest

from tests.webhook.support import container, decide, pod, policies


def test_clearml_images_need_the_hosts_pids_and_must_fit():
    policy_set = policies("limiter: clearml-image")
    image = "clearml/fractional-gpu:u22-cu12.3-8gb"
    decided = decide(pod(containers=[container(image=image)]), policy_set)
    assert decided.spec["hostPID"] is True
    assert decided.container()["image"] == image
    decided = decide(pod(fraction="0.250", containers=[container(image=image)]), policy_set)
    assert decided.code == "image-does-not-fit"
    assert decided.message == (
        "the image limits itself to 8192 MiB, more than the share of 5757 MiB on a GPU of 23028 MiB:"
        " use a smaller image or a larger fraction"
    )
    decided = decide(pod(), policy_set)
    assert decided.message == (
        'image "example.com/train:1" has no memory limit of its own, which limiter clearml-image needs:'
        " use an image that matches the policy"
    )


def test_whole_gpus_keep_their_image():
    decided = decide(pod(fraction="1.000"), policies('limiter: clearml-image\nfractions: {"1.000": 8}'))
    assert decided.container()["image"] == container()["image"]


IMAGES = """
kind: Limiter
name: own
image: {pattern: "[a-z]+:([0-9]+)", choices: {"small:4": 4096, "large:8": 8192}}
"""


@pytest.mark.parametrize(
    ("fraction", "image", "chosen"),
    [("0.500", "any", "large:8"), ("0.250", "any", "small:4"), ("0.250", "small:4", "small:4")],
)
def test_the_largest_image_that_fits_the_share_is_chosen(fraction, image, chosen):
    made = pod(fraction=fraction, containers=[container(image=image)])
    assert decide(made, policies("limiter: own", own=IMAGES)).container()["image"] == chosen


def test_a_share_that_no_image_fits_is_denied_with_the_least_that_one_needs():
    decided = decide(pod(fraction="0.125"), policies("limiter: own", own=IMAGES))
    assert decided.message == (
        "no image of limiter own fits the share of 2878 MiB: use a larger fraction"
        " (the smallest image needs 4096 MiB)"
    )
