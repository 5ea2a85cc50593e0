"""The doctor's list of checks: a sound installation is all green, and what was not read is a line."""

from doctor.checks import CHECKS, run_checks
from doctor.seen import NotRead
from tests.doctor.support import LOCK, SOUND, binding, lines, node, seen
from tests.doctor.test_agents import TAINTED


def test_a_sound_installation_is_green_in_every_line():
    found = run_checks(SOUND)
    assert {line.level for line in found} == {"ok"}
    assert [line.check for line in found] == [
        check.name for check in CHECKS if check.name not in {"trial", "installed"}
    ]


def test_a_check_without_the_right_says_which_and_the_others_go_on():
    why = "you lack the right to list events in namespace gpu-fraction-injector"
    found = run_checks(
        seen(endpoints=NotRead("you lack the right to list endpointslices"), events=NotRead(why))
    )
    skipped = {line.check: line.text for line in found if line.level == "skipped"}
    # Events are asked for only where something is wrong.
    assert skipped == {"endpoints": "endpoints: you lack the right to list endpointslices"}
    assert {line.level for line in found} == {"ok", "skipped"}


def test_what_was_found_before_something_could_not_be_read_is_shown():
    found = lines("bindings", lock_bindings=tuple(map(binding, LOCK[1:])), accounts=NotRead("no accounts"))
    assert [level for level, _ in found] == ["failed", "skipped"]


def test_without_an_installation_there_is_one_line_behind_those_of_nodes():
    policies = NotRead("ConfigMap does not exist", "failed")
    nothing = {"webhook": None, "lease": None, "agents": None, "policies": policies, "endpoints": ()}
    found = run_checks(seen(**nothing, nodes=(node(taints=TAINTED),)))
    assert [line.check for line in found] == ["shape", "nodes", "usable", "installed", "taints"]
    assert found[-1].level == "warning"  # helm uninstall leaves the taint
    assert found[-2].text == (
        "fraction-injector is not installed in namespace gpu-fraction-injector"
        " -- run helm install, or name the installation: --release NAMESPACE/NAME"
    )
    for there in ("webhook", "lease", "agents", "policies"):
        in_part = {key: value for key, value in nothing.items() if key != there}
        assert len(run_checks(seen(**in_part))) > len(CHECKS) / 2
