"""Tasks in containers: what is run, and what podman makes of it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cdi import CdiError
from agent.policy_compiler import part_for_nodes
from agent.shares import RefusedError
from baremetal.container import ContainerJobs, find_runtime
from baremetal.job import ShareLimits, shares
from baremetal.task import OVER, Submission
from policies.loading.loader import load_policies
from testbed.nvidia.cards import Card
from tests.baremetal.support.container_runtime import IMAGE
from tests.baremetal.support.docker import Docker
from tests.baremetal.support.machine import cards, policy, submission, task
from tests.baremetal.support.podman import Podman
from tests.baremetal.support.processes import Lab

CARDS = cards(2)
CLEARML = "docker.io/clearml/fractional-gpu:u22-cu12.3-8gb"


@pytest.fixture
def cdi(tmp_path):
    """A folder with NVIDIA's devices of the cards."""
    folder = tmp_path / "cdi"
    folder.mkdir()
    devices = [{"name": card.uuid, "containerEdits": {}} for card in CARDS]
    (folder / "nvidia.json").write_text(
        json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices})
    )
    return folder


@pytest.fixture
def library(tmp_path):
    file = tmp_path / "libvgpu.so.2"
    file.write_bytes(b"the library")
    return file


def limits_of(effective, library=None):
    part = part_for_nodes(replace(effective, limits_from="agent"))
    return ShareLimits(part, effective.limiter, str(library) if library is not None else None)


def job_of(given, limits, folder, cdi, image=IMAGE):
    """What is run for a task, on a machine of two cards."""
    containers = ContainerJobs("/usr/bin/podman", limits, CARDS, folder, [str(cdi)])
    return containers.job(given, shares(given, CARDS, limits.policy), "box/1/2", image)


def test_a_container_gets_the_devices_of_its_cards_and_of_its_share(tmp_path, cdi, library):
    given = task(indices=(1,), slices=4, submission=submission("half", "python", "train.py"))
    job = job_of(given, limits_of(policy(), library), tmp_path, cdi)
    assert job.command == (
        *("/usr/bin/podman", "run", "--name", "fraction-injector-box-1-2"),
        *("--label", "fraction-injector.task=box/1/2"),
        "--device=nvidia.com/gpu=GPU-1",
        "--device=clearml-injector.io/slices=GPU-1-4-of-8",
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
    assert [each for each in whole.command if "device" in each] == [
        "--device=nvidia.com/gpu=GPU-0",
        "--device=nvidia.com/gpu=GPU-1",
    ]
    unlimited = job_of(task(), limits_of(policy()), tmp_path, cdi)
    assert [each for each in unlimited.command if "device" in each] == ["--device=nvidia.com/gpu=GPU-0"]


def test_the_folder_of_the_submission_is_the_containers_too(tmp_path, cdi):
    here = Submission(queue="half", command=("true",), folder="/home/me/code")
    command = job_of(task(submission=here), limits_of(policy()), tmp_path, cdi).command
    assert {"--mount=type=bind,source=/home/me/code,target=/home/me/code", "--workdir=/home/me/code"} < set(
        command
    )


@pytest.fixture
def clearml(tmp_path):
    """A policy with ClearML's images, which limit themselves."""
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policy.yaml").write_text("kind: Policy\nname: default\nlimiter: clearml-image\n")
    return limits_of(load_policies(folder).resolve("default", None, None))


def test_an_image_that_limits_itself_to_the_share_sees_the_pids_of_the_host(tmp_path, cdi, clearml):
    command = job_of(task(), clearml, tmp_path, cdi, CLEARML).command
    assert {"--pid=host", "--ipc=host", CLEARML} < set(command)
    whole = job_of(task(slices=8), clearml, tmp_path, cdi, IMAGE).command
    assert "--pid=host" not in whole


@pytest.mark.parametrize("image", [IMAGE, CLEARML.replace("8gb", "40gb")])
def test_an_image_that_does_not_limit_itself_to_the_share_is_refused(tmp_path, cdi, clearml, image):
    with pytest.raises(
        RefusedError, match="limiter clearml-image needs an image that limits itself to at most"
    ):
        job_of(task(), clearml, tmp_path, cdi, image)


def test_cards_without_a_cdi_device_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(CdiError, match="or run nvidia-ctk cdi generate"):
        ContainerJobs("podman", limits_of(policy()), CARDS, tmp_path, [str(tmp_path)])


def test_a_machine_without_a_runtime_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CdiError, match="there is no podman or docker on PATH"):
        find_runtime(None)
    with pytest.raises(CdiError, match="there is no nerdctl on PATH"):
        find_runtime("nerdctl")
    (tmp_path / "docker").touch(mode=0o755)
    assert find_runtime(None) == str(tmp_path / "docker")


@pytest.fixture(params=[Podman, Docker], ids=["podman", "docker"])
def runtime(request, tmp_path):
    folder = tmp_path / "runtime"
    folder.mkdir()
    made = request.param(folder)
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path, runtime, library, monkeypatch):
    for name, value in runtime.env.items():
        monkeypatch.setenv(name, value)
    made = Lab(tmp_path, 0)
    made.write(*[Card(each, minor=number) for number, each in enumerate(runtime.uuids)])
    images = [f"--image={queue}={IMAGE}" for queue in ("half", "dual")]
    with_library = f"--limiter-library={library}", f"--runtime={runtime.program}"
    made.serve = lambda: made.start(*images, *with_library, "--queue", "half=0.5", "dual=2")
    yield made
    made.close()


def log_of(lab, number):
    log = lab.state / "tasks" / str(number) / "1" / "log"
    return log.read_text() if log.exists() else ""


@pytest.mark.slow
@pytest.mark.timeout(300, func_only=True)
def test_a_runtime_runs_tasks_with_the_devices_and_limits_of_their_shares(lab, runtime):
    half = lab.submit(
        *("half", "sh", "-c", "pwd; env; cat /etc/ld.so.preload; cat /usr/local/vgpu/libvgpu.so; exit 3"),
        folder=str(lab.folder),
    )
    dual = lab.submit("dual", "env")
    lab.serve()
    tasks = lab.until(lambda tasks: all(each.state in OVER for each in tasks.values()), "they end")
    said = log_of(lab, half)
    index = tasks[half].indices[0]
    assert (tasks[half].state, tasks[half].exit_code) == ("failed", 3)
    assert str(lab.folder) in said.splitlines()
    assert f"CARD_{index}={runtime.uuids[index]}" in said
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=20480m" in said
    assert said.endswith("/usr/local/vgpu/libvgpu.so\nthe library")
    assert [f"CARD_{number}={each}" in log_of(lab, dual) for number, each in enumerate(runtime.uuids)] == [
        True
    ] * 2
    assert runtime.containers() == []


@pytest.mark.slow
@pytest.mark.timeout(300, func_only=True)
def test_a_container_goes_on_when_the_runner_is_killed_and_ends_when_it_is_cancelled(lab, runtime):
    number = lab.submit("half", "sh", "-c", "echo runs; exec sleep 1000")
    lab.serve()
    lab.until(lambda _: "runs" in log_of(lab, number), "it runs")
    lab.kill()
    [name] = runtime.containers()
    mark = runtime("inspect", "--format", '{{index .Config.Labels "fraction-injector.task"}}', name).strip()
    lab.serve()
    tasks = lab.tasks()
    assert (tasks[number].state, tasks[number].attempt) == ("running", 1)
    lab.cancel(number)
    lab.until(lambda tasks: tasks[number].state == "cancelled", "it ends")
    assert runtime.containers() == []
    assert (name, mark.split("/")[1:]) == (f"fraction-injector-{mark.replace('/', '-')}", [str(number), "1"])


@pytest.mark.slow
@pytest.mark.timeout(300, func_only=True)
def test_a_container_whose_supervisor_is_killed_is_removed_and_its_task_reported(lab, runtime):
    number = lab.submit("half", "sh", "-c", "echo runs; exec sleep 1000")
    lab.serve()
    lab.until(lambda _: "runs" in log_of(lab, number), "it runs")
    begun = json.loads((lab.state / "tasks" / str(number) / "1" / "begun").read_text())
    os.kill(begun["pid"], 9)
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it is reported")
    assert tasks[number].state == "lost"
    assert runtime.containers() == []
