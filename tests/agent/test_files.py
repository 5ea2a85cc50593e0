"""What tells one state of folders from the next."""

from agent.files import stamps_of


def test_a_link_that_leads_nowhere_hides_no_other_file(tmp_path):
    links = [tmp_path / f"{number}-link" for number in range(0, 40, 2)]
    files = [tmp_path / f"{number}-file" for number in range(1, 40, 2)]
    # In turns, since a folder lists its files in an order of its own.
    for link, file in zip(links, files, strict=True):
        link.symlink_to(tmp_path / "nowhere")
        file.touch()
    assert {name for name, *_ in stamps_of([str(tmp_path)])} == set(map(str, files))


def test_a_folder_that_is_not_there_is_as_an_empty_one(tmp_path):
    (tmp_path / "file").touch()
    assert stamps_of([str(tmp_path / "missing")]) == frozenset()
    assert stamps_of([str(tmp_path / "missing"), str(tmp_path)]) == stamps_of([str(tmp_path)]) != frozenset()
