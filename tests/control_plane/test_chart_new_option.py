"""A new option of the controller with a value of the chart takes three files, all of them named here."""

from pathlib import Path

import pytest

from testbed.chart import CHART, RELEASE, objects_of
from tests.changed_checkout import changed_checkout, run_python

ROOT = CHART.parents[1]
IN_CHART = CHART.relative_to(ROOT)
FILES = {
    Path("controller/options.py"): [
        (
            "    stop_delay: StopDelay",
            '    patience: Annotated[float, Flag("Seconds to be patient.", min=0)] = 3\n',
        )
    ],
    IN_CHART / "values.yaml": [
        (
            "  # Serve the ledger as a page, on",
            '  # Seconds to be patient.\n  # @schema {"minimum": 0}\n  patienceSeconds: 3\n',
        )
    ],
    IN_CHART / "templates/controller/deployment.yaml": [
        (
            "            - --policies=/policies\n",
            "            - --patience={{ .Values.controller.patienceSeconds }}\n",
        )
    ],
}
"""Before what is added, and what."""
START = """
import sys, typer
from cli.process_command import process_command
from controller.options import ControllerOptions

def show(options: ControllerOptions) -> None:
    print(options.patience)

app = typer.Typer()
app.command()(process_command(show))
app(sys.argv[1:])
"""


@pytest.fixture
def checkout(tmp_path):
    """The product with one option more."""
    return changed_checkout(tmp_path, FILES)


def rendered(helm, folder, seconds):
    """Render the chart of that checkout with the new value."""
    values = helm.values({"controller": {"patienceSeconds": seconds}})
    return helm.run("template", RELEASE, str(folder / IN_CHART), values)


def test_an_option_with_its_value_is_three_files(helm, checkout):
    assert run_python(checkout, "-m", "charts.generate").returncode == 0
    assert (
        "| `controller.patienceSeconds` | `3` | Seconds to be patient. |"
        in (checkout / IN_CHART / "README.md").read_text()
    )
    assert "minimum: got -1, want 0" in rendered(helm, checkout, -1).stderr
    [deployment] = (
        each
        for each in objects_of(rendered(helm, checkout, 7).stdout)
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"{RELEASE}-controller")
    )
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    started = run_python(checkout, "-c", START, *container["args"][1:])
    assert (started.stdout, started.stderr) == ("7.0\n", "")
    assert "--patience" in run_python(checkout, "-m", "cli.main", "controller", "--help").stdout
