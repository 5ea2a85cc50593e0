"""The stages of the proof on a GPU."""

import json

import pytest

from bench.gpu import __main__ as command
from bench.gpu.stages import Setting, run

STAGES = """
from bench.gpu.stages import CannotError, WrongError
def good(setting): return {"seconds": setting.seconds}
def cannot(setting): raise CannotError("there is no GPU")
def wrong(setting): raise WrongError("half of it is missing", {"seen": 4})
def broken(setting): raise ValueError("x" * 9999)
"""


ENDS = {
    "good": ("ran", "", {"seconds": 5.0}),
    "cannot": ("cannot", "there is no GPU", {}),
    "wrong": ("failed", "half of it is missing", {"seen": 4}),
    "broken": ("failed", f"ValueError: {'x' * 388}", {}),
    "missing": ("failed", "AttributeError: module 'a_stage' has no attribute 'missing'", {}),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_stage_runs_or_says_why_not(tmp_path, monkeypatch, name):
    (tmp_path / "a_stage.py").write_text(STAGES)
    monkeypatch.syspath_prepend(tmp_path)
    line = run(name, "a_stage", Setting(tmp_path))
    assert (line.stage, line.status, line.why, line.figures) == (name, *ENDS[name])


@pytest.mark.parametrize(
    ("seconds", "why"), [(0.01, "it took more than 0 s"), (-1, "the stages before it took 450 s")]
)
def test_a_stage_without_time_is_ended_and_says_so(tmp_path, capfd, seconds, why):
    command._has_failed("nvml", Setting(tmp_path), seconds)
    assert json.loads(capfd.readouterr().out)["why"] == why
