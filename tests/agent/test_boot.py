"""Which boot of the node this is, by the kernel."""

from agent.boot import boot_id


def test_it_is_what_the_kernel_says(tmp_path):
    file = tmp_path / "sys" / "kernel" / "random" / "boot_id"
    file.parent.mkdir(parents=True)
    file.write_text("6a204bd8-9d5c-4d0a-bf1b-44e5a1b2c3d4\n")
    assert boot_id(tmp_path) == "6a204bd8-9d5c-4d0a-bf1b-44e5a1b2c3d4"


def test_where_the_kernel_does_not_say_it_is_empty(tmp_path):
    assert not boot_id(tmp_path)
