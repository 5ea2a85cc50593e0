"""Files that somebody else wrote: read or refused in bounded work, without a crash."""

from pathlib import Path

import pytest

from cli.kubernetes_yaml import MAX_ALIASED, MAX_DEPTH, UnusableTextError, read_documents
from cli.manifests import ManifestError, read_inventory, read_objects
from modes.resource_names import ResourceNames
from tests.cli.running import INVENTORY, run

NESTED = f"is nested more than {MAX_DEPTH} deep: no Kubernetes object is"
TOO_MUCH = "has aliases that expand to more than 3 MiB: write the values out"


def bomb(of_one, of_many, rounds):
    """Each line stands for nine of the line before."""
    lines = [f"a0: &a0 {of_one}"]
    for number in range(1, rounds):
        many = of_many.format(",".join([f"*a{number - 1}"] * 9))
        lines += [f"a{number}: &a{number} {many}"]
    return "kind: Pod\n" + "\n".join(lines)


BOMBS = [
    bomb("[x]", "[{}]", 60),
    bomb("{a: 1}", "{{<<: [{}]}}", 60),
    "kind: Pod\nx: &long " + "y" * 100_000 + "\nz: [" + "*long, " * 1000 + "]",
]


@pytest.mark.parametrize("text", BOMBS)
def test_aliases_are_counted_before_they_are_written_out(text):
    with pytest.raises(UnusableTextError, match=TOO_MUCH):
        read_documents(text.encode())


def test_aliases_that_stand_for_little_are_copies():
    [found] = read_documents(b"a: &a {x: [1, 2]}\nb: *a\nc: {<<: *a, y: 3}")
    assert found == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}, "c": {"x": [1, 2], "y": 3}}
    just = "a: &a " + "x" * (MAX_ALIASED - 1) + "\nb: *a"
    assert len(read_documents(just.encode())[0]["b"]) == MAX_ALIASED - 1


# A million of them crossed the C stack of PyYAML's composer: the process died without a word.
@pytest.mark.parametrize(
    "text", ["x: " + "[" * 1_000_000, "x: " + "{a: " * 100_000, "x:\n " + "- " * 100_000, "? " * 100_000]
)
def test_deep_nesting_ends_no_process(text):
    ended = run("explain", "-", "--inventory", INVENTORY, text=f"kind: Pod\n{text}")
    assert (ended.returncode, ended.stderr) == (2, f"fraction-injector: -: {NESTED}\n")


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 100_000])
def test_json_is_bounded_in_depth_too(levels):
    text = '{"kind": "Pod", "spec": ' + '{"a": ' * levels + "1" + "}" * levels + "}"
    ended = run("explain", "-", "--inventory", INVENTORY, text=text)
    assert ended.returncode == 2
    assert ended.stderr.endswith(f"{NESTED}\n")


def test_numbers_of_base_60_are_text_as_in_kubernetes_and_cost_nothing():
    text = "a: 22:22\nb: 1" + ":1" * 200_000 + "\nc: !!float '1" + ":1" * 1000 + "'\nd: 0x10\ne: 1.5\nf: .inf"
    found = read_documents(text.encode())[0]
    assert (found["a"], found["b"][:5], found["c"][:5]) == ("22:22", "1:1:1", "1:1:1")
    assert (found["d"], found["e"]) == (16, 1.5)


def test_an_endless_file_is_read_to_the_cap(monkeypatch):
    monkeypatch.setattr("cli.manifests.MAX_BYTES", 1000)
    monkeypatch.setattr("cli.kubernetes_yaml.MAX_BYTES", 1000)
    with pytest.raises(ManifestError, match=r"/dev/zero: is larger than 0 MiB: split it"):
        read_objects(Path("/dev/zero"))
    with pytest.raises(ManifestError, match=r"/dev/zero: is larger than 0 MiB: split it"):
        read_inventory(Path("/dev/zero"), ResourceNames())
