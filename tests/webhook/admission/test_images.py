"""Images that limit themselves must fit the share."""

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
