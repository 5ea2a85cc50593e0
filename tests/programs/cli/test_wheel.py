"""The wheel, as `pipx install .` installs it: in a clean environment, with the locked dependencies."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cli import VERSION
from tests.cli.running import CHECKOUT

UV = str(Path(sys.executable).with_name("uv"))


def ended(*command, **options):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment | {"COLUMNS": "120", "NO_COLOR": "1", "UV_LINK_MODE": "hardlink"},
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    ended(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=CHECKOUT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def commands(wheel, tmp_path_factory):
    environment = tmp_path_factory.mktemp("environment")
    ended(sys.executable, "-m", "venv", "--without-pip", environment)
    install = (UV, "pip", "install", "--quiet", "--no-deps", "--python", environment / "bin" / "python")
    ended(*install, "--require-hashes", "-r", CHECKOUT / "requirements" / "runtime.txt")
    ended(*install, wheel)
    return environment / "bin"


def test_the_wheel_holds_the_examples_of_the_demo_and_the_policies(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"cli/demo_files/inventory.yaml", "cli/demo_files/pods.yaml", "policies/default.yaml"} <= names
    assert not any(name.startswith(("tests/", "testbed/", "bench/")) for name in names)


def test_the_installed_commands_run_the_demo_and_say_their_version_and_what_they_do(commands, tmp_path):
    assert ended(commands / "fraction-injector", "demo", cwd=tmp_path).count("injected") > 3
    printed = ended(commands / "fraction-injector", "--version", cwd=tmp_path)
    assert printed == f"fraction-injector {VERSION}\n"
    plugin = ended(commands / "kubectl-fraction", "--help", cwd=tmp_path)
    assert all(name in plugin for name in ("ledger", "why", "explain"))
