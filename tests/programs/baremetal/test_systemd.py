"""Where systemd runs the machine: tasks have scopes of their own, in a systemd of the test's own."""

import json

import pytest

from baremetal.store import TASKS
from baremetal.supervisor import BEGUN
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
    output = [f"--property=StandardError=append:{lab.log}", "--property=KillMode=control-group"]
    command = lab.command("--queue", "half=0.5")
    systemd("systemd-run", "--unit=runner", "--collect", "--quiet", *output, "--", *command)
    eventually(lambda: lab.served() > served, "the runner serves")


def scopes(systemd):
    names = systemd("systemctl", "list-units", "--type=scope", "--plain", "--no-legend").splitlines()
    return [line.split()[0] for line in names if line.startswith("fraction-injector-")]


def test_a_task_outlives_the_service_of_its_runner_and_ends_with_its_exit_code(lab, systemd):
    lab.serve()
    number = lab.submit("half", "sh", "-c", f"until test -e {lab.folder}/go; do sleep 0.1; done; exit 3")
    lab.until(lambda tasks: tasks[number].state == "running", "it runs")
    [scope] = eventually(lambda: scopes(systemd), "its scope")
    assert scope.endswith(f"-{number}-1.scope")
    systemd("systemctl", "stop", "runner.service")
    assert scopes(systemd) == [scope]
    lab.serve()
    assert (lab.tasks()[number].state, lab.tasks()[number].attempt) == ("running", 1)
    (lab.folder / "go").touch()
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it ends")
    assert (tasks[number].state, tasks[number].exit_code) == ("failed", 3)
    assert not any("scopes" in each for each in lab.machine().warnings)
    eventually(lambda: scopes(systemd) == [], "its scope is gone")


def test_what_hid_from_a_supervisor_that_was_killed_ends_with_the_scope(lab, systemd):
    """It has another session, and not one variable by which it could be found."""
    lab.serve()
    hidden = f"setsid env -i sh -c 'echo runs > {lab.folder}/hidden; exec sleep 1000' & wait"
    number = lab.submit("half", "sh", "-c", hidden)
    eventually((lab.folder / "hidden").exists, "it hides")
    begun = json.loads((lab.state / TASKS / str(number) / "1" / BEGUN).read_text())
    assert "sleep 1000" in systemd("ps", "-e", "-o", "args")
    systemd("kill", "-KILL", str(begun["pid"]))
    tasks = lab.until(lambda tasks: tasks[number].state in OVER, "it is reported")
    assert tasks[number].state == "lost"
    assert "sleep 1000" not in systemd("ps", "-e", "-o", "args")
