"""What is said of the machine: who else used it, and what was measured."""

import os
import subprocess
import sys
from importlib.metadata import version

from bench.machine import MEASURED, NOTABLE_FOREIGN_LOAD, Conditions, Watch

CONDITIONS = Conditions("Some Processor", 2, "3.11.7", {"msgspec": "0.22.0"}, "0123abc", "2026-11-21", 0.5)


def test_foreign_load_is_said_where_it_is_notable():
    assert CONDITIONS.lines()[-1] == (
        "FOREIGN LOAD: others kept 0.50 cores busy meanwhile; compare ratios, not absolute figures"
    )


def test_a_quiet_machine_is_no_line():
    quiet = Conditions("Some Processor", 2, "3.11.7", {}, "0123abc", "2026-11-21", NOTABLE_FOREIGN_LOAD)
    assert not any("FOREIGN" in line for line in quiet.lines())


def test_versions_are_those_of_everything_measured(monkeypatch):
    monkeypatch.setattr("bench.machine._commit", lambda: "0123abc")
    found = Watch().stop()
    assert found.versions == {name: version(name) for name in MEASURED}
    assert found.commit == "0123abc"
    assert found.foreign_load >= 0


def test_a_pinned_process_stays_on_one_core():
    core = min(os.sched_getaffinity(0))
    code = f"import os, bench.machine as m; m.pin({core}); print(os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{{{core}}}\n"
