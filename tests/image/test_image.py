"""What is in the image, and that its commands run as its user."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.product import PACKAGES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
APP = "/opt/fraction-injector"
MIB = 1024 * 1024


def test_it_runs_as_nobody_in_particular(image):
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["python3", "-m", "cli.main"]
    assert image.config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert image.config["Labels"]["org.opencontainers.image.revision"] == "0123abc"


def test_every_module_is_compiled_and_nothing_else_came_along(image):
    app = image.root / APP.lstrip("/")
    modules = list(app.rglob("*.py"))
    assert len(modules) > 100
    for module in modules:
        assert list((module.parent / "__pycache__").glob(f"{module.stem}.cpython-*.pyc")), module
    found = {path.name for path in app.iterdir()}
    assert found == {"LICENSE", "examples", "requirements", *PACKAGES}
    assert not list((image.root / "opt/venv").rglob("pip"))
    assert not list((image.root / "opt").glob("uv*"))


def test_its_size(image, record_property, capsys):
    record_property("mib", image.bytes_added // MIB)
    with capsys.disabled():
        print(f"\nthe image adds {image.bytes_added // MIB} MiB to its base")  # noqa: T201 - asked for
    said = re.search(r"adds about (\d+) MiB", (ROOT / "docs" / "getting-started" / "install.md").read_text())
    assert said is not None
    assert abs(image.bytes_added // MIB - int(said[1])) <= 3


EXAMPLE = f"{APP}/examples/demo/inventory.yaml", f"{APP}/examples/hami-core/pod.yaml"
COMMANDS = {
    "version": (["--version"], "0.1.0"),
    "explain": (
        ["explain", f"--policies={APP}/policies", f"--inventory={EXAMPLE[0]}", EXAMPLE[1]],
        "nvidia.com/gpu-",
    ),
    "policy show": (["policy", "show", f"--policies={APP}/policies"], "hami-core"),
    "gpu-operator-values": (["gpu-operator-values", "--gpus=2"], "replicas"),
}


@pytest.mark.parametrize(("arguments", "printed"), COMMANDS.values(), ids=COMMANDS)
def test_its_entry_point_runs_commands_as_its_user_with_its_environment(image, arguments, printed):
    """What its processes need of a node and an API server is tried in tests/real_nodes/installed."""
    inside = ["/usr/bin/env", "-i", "--chdir", image.config["WorkingDir"], *image.config["Env"]]
    command = ["chroot", "--userspec=65532:65532", str(image.root), *inside, *image.config["Entrypoint"]]
    ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert printed in ended.stdout
