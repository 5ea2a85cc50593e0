"""Every example is exercised by the commands of its own README."""

import pytest

from policies.loading.build import CONTRACT
from policies.loading.loader import load_policies
from tests.policies.console import ROOT, pattern, printed, run, shown_commands

PRESETS = ["clearml-image", "custom", "hami-core", "none", "nvidia-driver"]
EXAMPLES = [*PRESETS, "cfgi-1.3", "memory", "mig", "queues", "several"]
SHOWN = [
    pytest.param(command, lines, code, id=f"{name}: {command.partition(' ')[2]}")
    for name in EXAMPLES
    for command, lines, code in shown_commands(ROOT / "examples" / name / "README.md")
]


@pytest.mark.parametrize(("command", "lines", "code"), SHOWN)
def test_a_readmes_command_prints_what_the_readme_shows(command, lines, code, monkeypatch):
    monkeypatch.chdir(ROOT)
    exit_code, output = run(command)
    assert exit_code == code
    assert pattern(lines).fullmatch(printed(output)), "\n".join(output)


def test_cfgi_1_3_accepts_every_text_of_its_documentation():
    policy = load_policies(ROOT / "examples" / "cfgi-1.3" / "policies").resolve("default", None, None)
    documented = ["0.0625", *CONTRACT, "1.000", "2", "2.0"]
    assert [policy.fractions[text].slices for text in documented] == [1, 2, 4, 6, 8, 10, 12, 14, 16, 32, 32]
    assert policy.fractions["2.0"].gpus == 2
