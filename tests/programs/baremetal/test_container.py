"""Tasks in containers: what podman and docker make of them."""

import re

import pytest

from baremetal.task import OVER
from testbed.nvidia.cards import Card
from tests.programs.baremetal.container_runtime import IMAGE
from tests.programs.baremetal.docker import Docker
from tests.programs.baremetal.podman import Podman
from tests.programs.baremetal.processes import Lab


@pytest.fixture(params=[Podman, Docker], ids=["podman", "docker"])
def runtime(request, tmp_path):
    folder = tmp_path / "runtime"
    folder.mkdir()
    made = request.param(folder)
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path, runtime, monkeypatch):
    library = tmp_path / "libvgpu.so.2"
    library.write_bytes(b"the library")
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


@pytest.mark.timeout(300, func_only=True)
def test_a_container_goes_on_when_the_runner_is_killed_and_ends_when_it_is_cancelled(lab, runtime):
    number = lab.submit("half", "sh", "-c", "echo runs; exec sleep 1000")
    lab.serve()
    lab.until(lambda _: "runs" in log_of(lab, number), "it runs")
    lab.kill()
    [name] = runtime.containers()
    lab.serve()
    tasks = lab.tasks()
    assert (tasks[number].state, tasks[number].attempt) == ("running", 1)
    lab.cancel(number)
    lab.until(lambda tasks: tasks[number].state == "cancelled", "it ends")
    assert runtime.containers() == []
    assert re.fullmatch(f"fraction-injector-[0-9a-f]+-{number}-1", name)
