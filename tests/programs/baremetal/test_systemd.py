"""A runner as a service of systemd, in a systemd of the test's own."""

from contextlib import closing

import pytest

from baremetal.task import OVER
from testbed.process import eventually
from tests.programs.baremetal.processes import Lab
from tests.programs.baremetal.systemd import Systemd


@pytest.fixture
def systemd(tmp_path):
    with closing(Systemd(tmp_path)) as made:
        yield made


@pytest.fixture
def lab(tmp_path, systemd):
    made = Lab(tmp_path, 1)
    yield made
    systemd("systemctl", "stop", "runner.service", check=False)


def restart(lab, systemd):
    """Have systemd start the runner anew, as a service of the docs."""
    served = lab.served()
    systemd("systemctl", "restart", "runner.service")
    eventually(lambda: lab.served() > served, "the runner serves")


def test_a_task_outlives_a_restart_of_the_service_of_its_runner_and_ends_with_its_exit_code(lab, systemd):
    command = " ".join(lab.command("--queue", "half=0.5"))
    unit = f"[Service]\nExecStart={command}\nKillMode=process\nStandardError=append:{lab.log}\n"
    systemd("sh", "-c", f"printf '{unit}' > /run/systemd/system/runner.service; systemctl daemon-reload")
    restart(lab, systemd)
    number = lab.submit("half", "sh", "-c", f"until test -e {lab.folder}/go; do sleep 0.1; done; exit 3")
    lab.until(lambda tasks: tasks[number].state == "running", "it runs")
    restart(lab, systemd)
    assert (lab.tasks()[number].state, lab.tasks()[number].attempt) == ("running", 1)
    (lab.folder / "go").touch()
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it ends")
    assert (tasks[number].state, tasks[number].exit_code) == ("failed", 3)
