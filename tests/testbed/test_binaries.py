"""The build of the binaries, with a `go` that only pretends."""

import os
import threading
from pathlib import Path

import pytest

from testbed import binaries
from testbed.building import BuildError
from testbed.kubernetes_version import releases
from testbed.nodes import parts

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.30.1; exit 0; fi
echo "$*" >> "$HOME/commands"
[ -z "$GATE" ] || { echo open > "$GATE.reached"; read -r _ < "$GATE"; }
case "$*" in *"$BROKEN"*) echo "$BROKEN does not compile" >&2; exit 2;; esac
if [ "$1" = install ]; then
  for last in "$@"; do :; done
  last=${last%@*}; echo built > "$GOBIN/${last##*/}"; exit 0
fi
while [ "$1" != -o ]; do shift; done
echo built > "$2"
"""
NAMES = [binary.name for binary in binaries.BINARIES]


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """Put the pretender on PATH and the cache in a folder of its own."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BROKEN", "nothing")
    monkeypatch.setenv("HOME", str(tmp_path))
    return go


def test_each_binary_is_built_once_with_a_line_before_and_after(fake_go):
    lines = []
    folder = binaries.build(lines.append)
    assert sorted(file.name for file in folder.iterdir() if file.name != ".lock") == sorted(NAMES)
    assert lines[0] == "control plane: building etcd (1 of 7) ..."
    assert lines[1] == "control plane: built etcd in 0 s"
    assert len(lines) == 14
    assert binaries.build(lines.append) == folder
    assert len(lines) == 14


@pytest.mark.parametrize("release", releases().values(), ids=releases())
def test_each_release_is_built_from_its_own_module_into_its_own_folder(release, fake_go, tmp_path):
    folder = binaries.build(lambda _: None, release)
    assert sorted(file.name for file in folder.iterdir() if file.name != ".lock") == sorted(NAMES)
    commands = (tmp_path / "commands").read_text().splitlines()
    [kubectl] = [command for command in commands if command.endswith("k8s.io/kubernetes/cmd/kubectl")]
    assert f"-modfile={release.module}" in kubectl.split()
    assert f"k8s.io/component-base/version.gitVersion=v{release.version}" in kubectl
    others = [binaries.cache_folder(other) for other in releases().values() if other != release]
    assert folder not in others


def test_a_failed_build_names_the_command_and_keeps_what_was_finished(fake_go, monkeypatch):
    monkeypatch.setenv("BROKEN", "cmd/kubectl")
    with pytest.raises(BuildError, match=r"go build .*cmd/kubectl failed:\ncmd/kubectl does not compile"):
        binaries.build(lambda _: None)
    left = [path.name for path in binaries.cache_folder().iterdir() if path.name != ".lock"]
    assert sorted(left) == sorted(NAMES[:4])
    monkeypatch.setenv("BROKEN", "nothing")
    lines = []
    binaries.build(lines.append)
    assert lines[0] == "control plane: building kubectl (1 of 3) ..."


def test_a_second_build_waits_for_the_first_and_builds_nothing(fake_go, monkeypatch, tmp_path):
    gate = tmp_path / "gate"
    reached = tmp_path / "gate.reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    monkeypatch.setenv("GATE", str(gate))
    first, second, waiting = [], [], threading.Event()

    def build_now(line):
        second.append(line)
        waiting.set()

    says = (first.append, build_now)
    builds = [threading.Thread(target=binaries.build, args=[say], daemon=True) for say in says]
    builds[0].start()
    assert reached.read_text() == "open\n"
    builds[1].start()
    assert waiting.wait(60)
    monkeypatch.delenv("GATE")
    gate.write_text("go on\n")
    for build in builds:
        build.join(60)
    assert second == ["control plane: another build is under way, waiting for it ..."]
    assert len(first) == 14


def test_no_go_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = "the control plane is built with Go 1.26 or newer, and there is no `go` on PATH"
    assert binaries.go_missing() == expected


def test_an_old_go_is_said(fake_go):
    fake_go.write_text("#!/bin/sh\necho go1.25.9\n")
    assert binaries.go_missing() == "the control plane is built with Go 1.26 or newer, and `go` is go1.25.9"


def test_a_newer_go_will_do(fake_go):
    assert binaries.go_missing() is None


@pytest.mark.parametrize("client", [None, "/usr/bin/docker"], ids=["without", "with"])
def test_the_daemons_that_only_some_tests_need_are_made_beforehand_docker_s_only_for_its_client(
    client, monkeypatch, capsys
):
    """In a test the first of four workers would build for minutes, and the others wait."""
    made = []
    monkeypatch.setattr(parts, "why_not", lambda: None)
    monkeypatch.setattr(parts, "build", lambda _: parts.Parts(Path("/parts")))
    for name in ("build_with_cdi_switch", "build_dockerd"):
        monkeypatch.setattr(parts, name, lambda say, name=name: made.append(name))
    monkeypatch.setattr("shutil.which", lambda _: client)
    parts.main()
    assert made == ["build_with_cdi_switch", *(["build_dockerd"] if client else [])]
    assert capsys.readouterr().out == "/parts\n"
