"""Tasks in containers: what is run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cdi import CdiError
from agent.policy_compiler import part_for_nodes
from agent.shares import RefusedError
from baremetal.container import ContainerJobs, find_runtime
from baremetal.job import ShareLimits, shares
from policies.loading.loader import parse_policies
from tests.baremetal.support.machine import cards, policy, submission, task

CARDS = cards(2)
IMAGE = "localhost/busybox"
CLEARML = "docker.io/clearml/fractional-gpu:u22-cu12.3-8gb"


@pytest.fixture
def cdi(tmp_path):
    """A folder with NVIDIA's devices of the cards."""
    folder = tmp_path / "cdi"
    folder.mkdir()
    devices = [{"name": card.uuid, "containerEdits": {}} for card in CARDS]
    known = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}
    (folder / "nvidia.json").write_text(json.dumps(known))
    return folder


@pytest.fixture
def library(tmp_path):
    (tmp_path / "libvgpu.so.2").write_bytes(b"the library")
    return tmp_path / "libvgpu.so.2"


def limits_of(effective, library=None):
    part = part_for_nodes(replace(effective, limits_from="agent"))
    return ShareLimits(part, effective.limiter, str(library) if library is not None else None)


def job_of(given, limits, folder, cdi, image=IMAGE):
    containers = ContainerJobs("/usr/bin/podman", limits, CARDS, folder, [str(cdi)])
    return containers.job(given, shares(given, CARDS, limits.policy), "box/1/2", image)


def test_a_container_gets_the_devices_of_its_cards_and_of_its_share(tmp_path, cdi, library):
    here = submission("half", "python", "train.py", folder="/home/me/code")
    given = task(indices=(1,), slices=4, submission=here)
    job = job_of(given, limits_of(policy(), library), tmp_path, cdi)
    assert job.command == (
        *("/usr/bin/podman", "run", "--name", "fraction-injector-box-1-2"),
        "--device=nvidia.com/gpu=GPU-1",
        "--device=clearml-injector.io/slices=GPU-1-4-of-8",
        "--mount=type=bind,source=/home/me/code,target=/home/me/code",
        "--workdir=/home/me/code",
        IMAGE,
        "python",
        "train.py",
    )
    assert job.cleanup == ("/usr/bin/podman", "rm", "--force", "fraction-injector-box-1-2")


def test_the_share_is_limited_by_the_library_of_this_machine(tmp_path, cdi, library):
    job_of(task(), limits_of(policy(), library), tmp_path, cdi)
    made = json.loads((cdi / "clearml-injector.io-slices-GPU-0.json").read_text())
    [edits] = [each["containerEdits"] for each in made["devices"] if each["name"] == "GPU-0-4-of-8"]
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=20480m" in edits["env"]
    sources = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
    assert sources["/usr/local/vgpu"] == f"{tmp_path}/library"
    assert (tmp_path / "library" / "libvgpu.so").read_bytes() == b"the library"
    preload = sources["/etc/ld.so.preload"]
    assert Path(preload).read_text() == "/usr/local/vgpu/libvgpu.so\n"


def test_whole_cards_have_no_limit_and_without_a_library_no_share_has(tmp_path, cdi, library):
    whole = job_of(task(indices=(0, 1), slices=8), limits_of(policy(), library), tmp_path, cdi)
    unlimited = job_of(task(), limits_of(policy()), tmp_path, cdi)
    for job, cards_of_job in ((whole, "01"), (unlimited, "0")):
        devices = [each for each in job.command if "device" in each]
        assert devices == [f"--device=nvidia.com/gpu=GPU-{number}" for number in cards_of_job]


@pytest.fixture
def clearml():
    """A policy with ClearML's images, which limit themselves."""
    policies = parse_policies({"default.yaml": b"kind: Policy\nname: default\nlimiter: clearml-image\n"})
    return limits_of(policies.resolve("default", None, None))


def test_an_image_that_limits_itself_to_the_share_sees_the_pids_of_the_host(tmp_path, cdi, clearml):
    command = job_of(task(), clearml, tmp_path, cdi, CLEARML).command
    assert {"--pid=host", "--ipc=host", CLEARML} < set(command)
    whole = job_of(task(slices=8), clearml, tmp_path, cdi, IMAGE).command
    assert "--pid=host" not in whole


@pytest.mark.parametrize("image", [IMAGE, CLEARML.replace("8gb", "40gb")])
def test_an_image_that_does_not_limit_itself_to_the_share_is_refused(tmp_path, cdi, clearml, image):
    with pytest.raises(RefusedError, match="clearml-image needs an image that limits itself to at most"):
        job_of(task(), clearml, tmp_path, cdi, image)


def test_cards_without_a_cdi_device_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(CdiError, match=r"names GPU 0 .*: run `nvidia-ctk cdi generate --output="):
        ContainerJobs("podman", limits_of(policy()), CARDS, tmp_path, [str(tmp_path)])


def test_a_machine_without_a_runtime_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CdiError, match="there is no podman or docker on PATH"):
        find_runtime(None)
    with pytest.raises(CdiError, match="there is no nerdctl on PATH"):
        find_runtime("nerdctl")
    (tmp_path / "docker").touch(mode=0o755)
    assert find_runtime(None) == str(tmp_path / "docker")
