"""A runner as a service of systemd, in a systemd of the test's own."""

import pytest

from baremetal.task import OVER
from testbed.process import eventually
from tests.programs.baremetal.processes import Lab
from tests.programs.baremetal.systemd import Systemd


@pytest.fixture
def systemd(tmp_path):
    made = Systemd(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path, systemd):
    made = Lab(tmp_path, 1)
    made.serve = lambda: serve(made, systemd)
    yield made
    systemd("systemctl", "stop", "runner.service", check=False)


def serve(lab, systemd):
    """Run a runner as a service, as the docs say."""
    served = lab.served()
    output = [f"--property=StandardError=append:{lab.log}", "--property=KillMode=process"]
    command = lab.command("--queue", "half=0.5")
    systemd("systemd-run", "--unit=runner", "--collect", "--quiet", *output, "--", *command)
    eventually(lambda: lab.served() > served, "the runner serves")


def test_a_task_outlives_the_service_of_its_runner_and_ends_with_its_exit_code(lab, systemd):
    lab.serve()
    number = lab.submit("half", "sh", "-c", f"until test -e {lab.folder}/go; do sleep 0.1; done; exit 3")
    lab.until(lambda tasks: tasks[number].state == "running", "it runs")
    systemd("systemctl", "stop", "runner.service")
    lab.serve()
    assert (lab.tasks()[number].state, lab.tasks()[number].attempt) == ("running", 1)
    (lab.folder / "go").touch()
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it ends")
    assert (tasks[number].state, tasks[number].exit_code) == ("failed", 3)
