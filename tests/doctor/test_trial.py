"""The labelled pod that is created in a dry run, and what the API server makes of it."""

import asyncio
import json

import pytest

from cluster.kube_client import ApiError
from doctor.seen import NotRead, Read, Trial
from doctor.trial import try_pod
from policies.loading.loader import parse_policies

PODS = "/api/v1/namespaces/team/pods"
INJECTED = {"metadata": {"name": "x", "annotations": {"clearml-injector/injected": "default@1"}}}


def tried(answer=INJECTED, *, policy=None):
    asked = []

    class Api:
        async def request(self, method, path, *, query=None, body=None):
            asked.append((method, path, query, body))
            if isinstance(answer, Exception):
                raise answer
            return json.dumps(answer).encode()

    text = f"kind: Policy\nname: default\n{policy}\n".encode()
    policies = parse_policies({"default.yaml": text}) if policy is not None else None
    return asyncio.run(try_pod(Api(), "team", policies)), asked


def test_a_pod_with_the_smallest_share_is_created_in_a_dry_run_where_the_user_may():
    found, asked = tried()
    assert found == Read(Trial("team", injected="default@1"))
    [(method, pods, query, pod)] = asked
    assert (method, pods, query) == ("POST", PODS, {"dryRun": "All"})
    assert pod["metadata"]["labels"] == {"clearml-injector/fraction": "0.125"}


@pytest.mark.parametrize(
    ("policy", "labels"),
    [
        ('fractions: {"0.875": 7, "0.500": 4}', {"clearml-injector/fraction": "0.500"}),
        ("fractions: {}\nmemory: {allowed: true, min: 4Gi}", {"clearml-injector/gpu-memory": "4096Mi"}),
    ],
)
def test_the_label_is_one_that_the_policy_allows(policy, labels):
    _, asked = tried(policy=policy)
    assert asked[0][3]["metadata"]["labels"] == labels


def test_no_pod_is_tried_where_the_policy_allows_none():
    assert tried(policy="fractions: {}") == (Read(Trial("team", closed_by="default")), [])


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"metadata": {"name": "x"}}, Read(Trial("team"))),
        (
            {"metadata": {"name": "x", "annotations": {"clearml-injector/no-share": "services"}}},
            Read(Trial("team", no_share="services")),
        ),
        (
            ApiError(500, "failed calling webhook"),
            Read(Trial("team", refusal="the API server answered 500: failed calling webhook")),
        ),
        (
            ApiError(403, 'pods is forbidden: User "me" cannot create resource "pods" in API group ""'),
            NotRead("you lack the right to create pods in namespace team"),
        ),
        (
            TimeoutError(),
            NotRead(
                "the API server does not answer the creation of a pod in namespace team: timeout",
                "failed",
                "see its log: an admission webhook may hang",
            ),
        ),
        (ApiError(404, "none"), NotRead("namespace team does not exist: name another by --try-namespace")),
    ],
)
def test_what_comes_back_is_kept(answer, found):
    assert tried(answer)[0] == found
