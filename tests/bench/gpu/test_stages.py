"""The stages of the proof on a GPU."""

from bench.gpu.stages import CannotError, Setting, Stage, WrongError, run_stages


def test_a_stage_runs_or_says_why_not_and_none_ends_another(tmp_path):
    def cannot(_setting):
        raise CannotError("there is no GPU")

    def wrong(_setting):
        raise WrongError("half of it is missing", {"seen": 4})

    def broken(_setting):
        raise ValueError("x" * 9999)

    runs = {"good": lambda setting: {"seconds": setting.seconds}, "no": cannot, "bad": wrong, "new": broken}
    stages = [Stage(name, run, "?") for name, run in runs.items()]
    lines = [
        (line.stage, line.status, line.why[:25], line.figures)
        for line in run_stages(stages, Setting(tmp_path))
    ]
    assert lines == [
        ("good", "ran", "", {"seconds": 5.0}),
        ("no", "cannot", "there is no GPU", {}),
        ("bad", "failed", "half of it is missing", {"seen": 4}),
        ("new", "failed", f"ValueError: {'x' * 13}", {}),
    ]
