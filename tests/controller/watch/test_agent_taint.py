"""Our taint on a node: found, put on and taken off, and no other touched."""

from controller.watch.agent_taint import NodeTaints, hold_patch, release_patch


def test_patches_change_nothing_but_our_taint():
    assert [(op["op"], op["path"]) for op in hold_patch(NodeTaints(2))] == [("add", "/spec/taints/-")]
    assert [op["op"] for op in hold_patch(NodeTaints())] == ["test", "add"]
    assert [(op["op"], op["path"]) for op in release_patch(1)] == [
        ("test", "/spec/taints/1/key"),
        ("test", "/spec/taints/1/effect"),
        ("remove", "/spec/taints/1"),
    ]
