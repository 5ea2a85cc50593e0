"""fraction-injector cordon and uncordon, against an API server of a few lines."""

import json

import pytest

from cluster.kube_client import ApiError
from kube.dra import DRIVER
from kube.names import RESOURCE_SLICES_PATH
from tests.cli.running import error_line, run, serve

KEY = "clearml-injector/cordon"


class Api:
    """One node, which somebody else changes a given number of times in between."""

    def __init__(self, cordon=None, gpus=(0, 1, 2), conflicts=0, cards=()):
        metadata = {"resourceVersion": "5", "annotations": {} if cordon is None else {KEY: cordon}}
        capacity = {f"nvidia.com/gpu-{index}": "8" for index in gpus}
        self.node = {"metadata": metadata, "status": {"capacity": capacity}}
        self.conflicts = conflicts
        self.cards = cards

    async def request(self, method, path, *, body=None, content_type=None, query=None):
        if path == RESOURCE_SLICES_PATH:
            assert query == {"fieldSelector": f"spec.nodeName=gpu-0,spec.driver={DRIVER}"}
            devices = [{"name": f"gpu-{number}"} for number in self.cards]
            return json.dumps({"items": [{"spec": {"devices": devices}}]}).encode()
        if path != "/api/v1/nodes/gpu-0":
            raise ApiError(404, f"nodes {path} not found", None)
        if method == "GET":
            return json.dumps(self.node).encode()
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(409, "the object has been modified", None)
        assert (content_type, body["metadata"]["resourceVersion"]) == ("application/merge-patch+json", "5")
        self.written = body["metadata"]["annotations"][KEY]
        return b"{}"


def called(monkeypatch, api, *arguments):
    serve(monkeypatch, api)
    return run(*arguments)


@pytest.mark.parametrize(
    ("before", "arguments", "written"),
    [
        (None, ["cordon", "gpu-0", "2"], "2"),
        ("2", ["cordon", "gpu-0", "0", "1"], "0,1,2"),
        ("nonsense", ["cordon", "gpu-0", "1"], "1"),
        (None, ["cordon", "gpu-0"], "0,1,2"),
        ("0,2", ["uncordon", "gpu-0", "2"], "0"),
        ("0,2", ["uncordon", "gpu-0", "0", "2"], None),
        ("0,2", ["uncordon", "gpu-0"], None),
    ],
)
def test_gpus_go_out_and_come_back(monkeypatch, before, arguments, written):
    api = Api(before, conflicts=1)
    ended = called(monkeypatch, api, *arguments)
    assert (ended.returncode, api.written) == (0, written)
    said = "new pods on every GPU" if written is None else f"no new pods on GPU {written.replace(',', ', ')};"
    assert ended.stdout.startswith(f"node gpu-0: {said}")


def test_cards_that_an_agent_offers_to_claims_go_out_by_their_numbers(monkeypatch):
    api = Api(gpus=(), cards=(0, 3))
    assert called(monkeypatch, api, "cordon", "gpu-0").returncode == 0
    assert api.written == "0,3"
    assert "node gpu-0 has no GPU 1: it has 0,3" in called(monkeypatch, api, "cordon", "gpu-0", "1").stderr


@pytest.mark.parametrize(
    ("api", "arguments", "said"),
    [
        (Api(), ["gpu-0", "7"], "node gpu-0 has no GPU 7: it has 0,1,2"),
        (Api(gpus=()), ["gpu-0"], "node gpu-0 offers neither slices of GPUs by index nor cards of gpu."),
        (Api(), ["typo"], "node typo cannot be changed: "),
        (Api(conflicts=9), ["gpu-0", "1"], "node gpu-0 cannot be changed: "),
    ],
)
def test_what_cannot_be_done_is_said(monkeypatch, api, arguments, said):
    assert error_line(called(monkeypatch, api, "cordon", *arguments)).startswith(said)


def test_a_resource_name_without_an_index_is_refused_before_the_cluster_is_asked():
    said = error_line(run("cordon", "gpu-0", "--gpu-resource", "nvidia.com/gpu"))
    assert said.startswith('--gpu-resource "nvidia.com/gpu" must end in {index}')
