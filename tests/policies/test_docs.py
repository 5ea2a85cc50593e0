"""The tutorial for policies is run as it is written."""

import re

from tests.policies.console import ROOT, pattern, printed, run, shown_commands

TUTORIAL = ROOT / "docs" / "getting-started" / "first-policies.md"
STEP = re.compile(r"<!-- file: (?P<file>\S+) -->\n```yaml\n(?P<text>.*?)```|```console\n.*?```", re.DOTALL)


def test_the_tutorial_leads_to_two_queues_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "step.md"
    ran = []
    for step in STEP.finditer(TUTORIAL.read_text()):
        if step["file"]:
            (tmp_path / step["file"]).parent.mkdir(exist_ok=True)
            (tmp_path / step["file"]).write_text(step["text"])
            continue
        page.write_text(step[0])
        for command, lines, code in shown_commands(page):
            exit_code, output = run(command)
            assert exit_code == code, output
            assert pattern(lines).fullmatch(printed(output)), "\n".join([command, *output])
            ran.append(command.split()[1])
    assert ran == ["check", "check", "check", "check", "explain", "policy"]
