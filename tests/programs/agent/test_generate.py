"""The committed messages are what protoc makes of the .proto files."""

from testbed.kubelet_messages import FOLDER, generate


def test_the_messages_are_what_protoc_makes_today(tmp_path):
    made = generate(tmp_path)
    assert {file.name: file.read_text() for file in made} == {
        file.name: file.read_text() for file in FOLDER.glob("*_pb2*")
    }
