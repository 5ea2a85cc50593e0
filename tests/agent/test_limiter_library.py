"""The limiter's library on the node is the one that the agent knows, no matter who wrote there meanwhile."""

import pytest

from agent.limiter_library import LibraryError, LimiterLibrary
from agent.limits import loader_list
from agent.settings import LimiterPart
from tests.agent.support.node import HAMI

ALL = {"libvgpu.so": b"the limiter", "libmore.so": b"what it needs"}


@pytest.fixture
def source(tmp_path):
    """Where the limiter's init container put its library, in the agent's pod."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name, content in ALL.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def state_dir(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def on_node(state_dir):
    """The library on the node, of an older limiter."""
    (state_dir / "library").mkdir(parents=True)
    file = state_dir / "library" / "libvgpu.so"
    file.write_bytes(b"an older limiter")
    return file


def prepared(state_dir, source, limiter=HAMI):
    library = LimiterLibrary(limiter, state_dir, source)
    library.prepare()
    return library


def files_of(state_dir):
    """What is there, but for the loader's list, which names the library."""
    assert (state_dir / loader_list(HAMI.preload)).read_text() == f"{HAMI.preload}\n"
    return {path.name: path.read_bytes() for path in (state_dir / "library").iterdir()}


def test_another_one_on_the_node_is_replaced_and_programs_that_run_keep_theirs(state_dir, source, on_node):
    with on_node.open("rb") as mapped:
        prepared(state_dir, source)
        assert mapped.read() == b"an older limiter"
    assert files_of(state_dir) == ALL


@pytest.mark.parametrize("name", ALL)
def test_one_that_was_replaced_is_put_back_before_a_container_starts(state_dir, source, name, capfd):
    library = prepared(state_dir, source)
    library.check()
    assert "put back" not in capfd.readouterr().err
    (state_dir / "library" / name).write_bytes(b"no limiter")
    (state_dir / loader_list(HAMI.preload)).write_text("")
    library.check()
    assert files_of(state_dir) == ALL
    assert "the limiter's library on the node was another one: it is put back" in capfd.readouterr().err


def test_a_link_to_another_one_is_replaced_and_never_followed(state_dir, source, on_node, tmp_path):
    library = prepared(state_dir, source)
    other = tmp_path / "other.so"
    other.write_bytes(b"the limiter")
    on_node.unlink()
    on_node.symlink_to(other)
    library.check()
    assert not on_node.is_symlink()
    assert other.read_bytes() == b"the limiter"


def test_nothing_is_left_of_one_that_cannot_be_put_back(state_dir, source, on_node):
    library = prepared(state_dir, source)
    on_node.unlink()
    on_node.mkdir()
    with pytest.raises(LibraryError, match="cannot be written: Is a directory"):
        library.check()
    assert {path.name for path in (state_dir / "library").iterdir()} == ALL.keys()


def test_a_link_in_the_limiters_image_brings_no_file_of_the_agents_to_pods(state_dir, source, tmp_path):
    (tmp_path / "token").write_bytes(b"secret")
    (source / "more.so").symlink_to(tmp_path / "token")
    prepared(state_dir, source)
    assert files_of(state_dir) == ALL


def test_a_library_of_which_only_the_node_knows_is_held_to_what_it_was_at_the_start(state_dir, on_node):
    library = prepared(state_dir, None)
    library.check()
    on_node.write_bytes(b"no limiter")
    with pytest.raises(LibraryError, match="is not what it was when the agent started"):
        library.check()


def test_a_library_that_is_missing_or_no_file_is_named(state_dir, source):
    with pytest.raises(LibraryError, match="put the library of limiter hami-core there"):
        prepared(state_dir, None)
    library = source / "libvgpu.so"
    library.rename(source / "libvgpu.so.2")
    with pytest.raises(LibraryError, match=r"source/libvgpu\.so is not there"):
        prepared(state_dir, source)
    library.symlink_to("libvgpu.so.2")
    with pytest.raises(LibraryError, match=r"libvgpu\.so is no file that the agent can read: have the init"):
        prepared(state_dir, source)


def test_a_folder_that_leads_elsewhere_is_refused(state_dir, source, tmp_path):
    state_dir.mkdir()
    (state_dir / "library").symlink_to(tmp_path)
    with pytest.raises(LibraryError, match="library is a link: remove it"):
        prepared(state_dir, source)


def test_a_limiter_without_a_library_needs_nothing(state_dir, source):
    prepared(state_dir, source, LimiterPart("none")).check()
    assert not state_dir.exists()
