"""`check` of policy folders and files and of the values of this chart; of an agent's: test_queue_report."""

import json

import pytest

from tests.cli.running import CHECKOUT, run, write


def test_a_policy_file_is_checked_alone_with_the_built_in_default(tmp_path):
    file = write(tmp_path, own="kind: Policy\nname: own\nnamespaces: [n]\n") / "own.yaml"
    code, out, err = run("check", file)
    assert (code, err) == (0, "")
    assert out.startswith(f"{file} is fine (policies: 1, limiters of your own: 0, queues: 0), digest ")
    file.write_text("kind: Policy\nname: own\nlimitr: none\n")
    assert run("check", file) == (1, "", f'{file}:3: limitr: unknown key (did you mean "limiter"?)\n')


VALUES = """\
image: {repository: r}
policies:
  team:
    namespaces: [team]
    limiter: own
limiters:
  own:
    extends: hami-core
queues:
  half:
    namespaces: [team]
    templateOverrides:
      labels: {clearml-injector/fraction: "0.500"}
"""


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("limiter: own", "limiter: nun", ':5: limiter: "nun" is not defined'),
        ("namespaces: [team]\n    limiter", "slicesPerGPU: 8\n    limiter", ":4: slicesPerGPU"),
        ('"0.500"', '"0.5"', ':13: queues.half.templateOverrides.labels."clearml-injector/fraction": "0.5"'),
        ("extends: hami-core", "extends: hami", ":8: extends"),
        ("policies:\n  team:", "policies:\n  - team:", ":2: policies: must be a mapping"),
        ("limiters:\n  own:\n    extends: hami-core\n", "", ':5: limiter: "own"'),
    ],
)
def test_policies_in_values_of_the_chart_are_checked_with_the_lines_of_the_values(
    tmp_path, before, after, problem
):
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    code, out, err = run("check", file)
    assert (code, err) == (0, "")
    assert out.startswith(f"{file} is fine (policies: 2, limiters of your own: 1, queues: 1)")
    file.write_text(VALUES.replace(before, after))
    code, _, err = run("check", file)
    assert code == 1
    assert err.startswith(f"{file}{problem}"), err


def test_the_values_of_the_chart_itself_are_fine():
    for values in [CHECKOUT / "charts/fraction-injector/values.yaml", *CHECKOUT.glob("charts/*/ci/*.yaml")]:
        code, out, err = run("check", values)
        assert (code, err) == (0, ""), values
        assert " is fine (policies: " in out
        assert out.endswith("; keys of other values are checked by Helm\n")


FOR_DRA = (
    "note: {}:2: place: the scheduler chooses node and card: leave it out (for Kubernetes 1.36 and newer"
)


@pytest.mark.parametrize(
    ("agent", "has_note"),
    [
        ("{enabled: true}", True),
        ("{enabled: true, divide: null, offer: auto}", True),
        ("{enabled: true, policy: other}", True),
        ("{enabled: false}", False),
        ("{enabled: true, offer: device-plugin}", False),
        ('{enabled: true, divide: ["0"]}', False),
        ("{}", False),
    ],
)
def test_what_mode_dra_cannot_keep_is_a_note_where_the_version_of_kubernetes_decides(
    tmp_path, agent, has_note
):
    file = tmp_path / "values.yaml"
    file.write_text(f"agent: {agent}\npolicies: {{default: {{place: spread}}, other: {{namespaces: [a]}}}}\n")
    code, out, _ = run("check", file)
    assert (code, FOR_DRA.format(file) in out, "note: " in out) == (0, has_note, has_note), out


def test_several_paths_are_checked_and_the_worst_is_the_exit_status(tmp_path):
    good = write(tmp_path, good="kind: Policy\nname: default\n") / "good.yaml"
    bad = write(tmp_path, bad="kind: Policy\nnme: x\n") / "bad.yaml"
    code, out, err = run("check", good, "-f", bad)
    assert (code, "good.yaml is fine" in out, "bad.yaml:2: nme" in err) == (1, True, True)
    assert run("check", good, bad, tmp_path / "absent")[0] == 2
    assert run("check")[0] == 2


def test_json_lists_notes_and_mistakes_with_their_place(tmp_path):
    text = "kind: Policy\nname: default\nlimiter: none\n"
    code, out, _ = run("check", write(tmp_path, default=text), "-o", "json")
    note, fine = json.loads(out)
    assert (code, note["level"], note["file"], note["line"]) == (0, "note", f"{tmp_path}/default.yaml", 3)
    assert (fine["level"], fine["file"]) == ("ok", str(tmp_path))
    write(tmp_path, default=text.replace("limiter", "limitr"))
    code, out, _ = run("check", tmp_path, "-o", "json")
    [error] = json.loads(out)
    assert (code, error["level"], error["line"], error["path"]) == (1, "error", 3, "limitr")


def test_standard_input_is_a_file_too():
    ended = run("check", "-", text="kind: Policy\nname: default\n")
    assert (ended.returncode, ended.stdout.partition(" is fine")[0]) == (0, "-")
