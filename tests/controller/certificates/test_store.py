"""Which webhooks are dialled during a rotation, and what a Secret's write takes away."""

import base64

from certs.observation import SecretContent
from controller.certificates.store import CertificateStore, Installation, issued_names
from tests.cluster.fake_api import FakeApi, reply, talking_to

OWN = Installation("own", "x")


def slices(*found):
    return reply({"items": list(found)})


def endpoint(*addresses, **conditions):
    return {"addresses": list(addresses), "conditions": conditions}


async def test_every_endpoint_that_may_get_requests_is_dialled():
    ports = [{"name": "health", "port": 1}, {"name": "https", "port": 2}]
    ready = endpoint("127.0.0.2", ready=True, serving=True)
    draining = endpoint("127.0.0.3", ready=False, serving=True)
    unready = endpoint("127.0.0.4", ready=False, serving=False)
    unknown = endpoint("::1")
    fake = FakeApi(
        slices(
            {"ports": ports, "endpoints": [ready, draining, unready, unknown]},
            {"ports": [], "endpoints": None},
        )
    )

    async with talking_to(fake) as api:
        served = await CertificateStore(api, OWN).served()
    assert served == dict.fromkeys(("127.0.0.2:2", "127.0.0.3:2", "[::1]:2"))
    assert fake.queries == [{"limit": "500", "labelSelector": "kubernetes.io/service-name=x-webhook"}]


async def test_a_secret_is_written_over_the_version_that_was_read_and_loses_what_is_gone():
    data = {"tls.key": base64.b64encode(b"k").decode(), "old": base64.b64encode(b"o").decode()}
    metadata = {"resourceVersion": "7", "annotations": {"mine": "1", "gone": "2"}}
    fake = FakeApi(reply({"metadata": metadata, "data": data}), reply({}))

    async with talking_to(fake) as api:
        store = CertificateStore(api, OWN)
        content, version = await store.read_secret("tls")
        assert content == SecretContent({"tls.key": b"k", "old": b"o"}, {"mine": "1", "gone": "2"})
        await store.write_secret("tls", SecretContent({"tls.key": b"n"}, {"mine": "1"}), version)
    method, path, _, body = fake.asked[1]
    assert (method, path) == ("PATCH", "/api/v1/namespaces/own/secrets/x-tls")
    assert body == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/annotations", "value": {"mine": "1"}},
        {"op": "add", "path": "/data", "value": {"tls.key": base64.b64encode(b"n").decode()}},
    ]


async def test_a_secret_that_is_missing_is_made():
    fake = FakeApi(reply({}))

    async with talking_to(fake) as api:
        await CertificateStore(api, OWN).write_secret("ca", SecretContent({}, {"a": "b"}), None)
    metadata = {"name": "x-ca", "annotations": {"a": "b"}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}
    assert fake.asked == [("POST", "/api/v1/namespaces/own/secrets", {}, body)]


def test_the_leaf_is_good_for_both_services():
    names = issued_names(OWN, ("localhost",))
    assert {"x-webhook.own.svc", "x-controller.own.svc", "localhost"} <= set(names)
    assert len(names) == 9
