"""Pods that mount the certificate are touched when it changes, so that the kubelet brings it at once."""

import asyncio

from certs.observation import SecretContent
from controller.certificates.store import CertificateStore, Installation
from kube.names import CERTIFICATE_ANNOTATION
from tests.cluster.fake_api import FakeApi, reply, talking_to

CONTENT = SecretContent({"tls.crt": b"leaf", "tls.key": b"key", "ca.crt": b"ca"}, {})


def pod(name, *volumes, **annotations):
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"volumes": list(volumes)}}


MOUNTED = {"name": "tls", "secret": {"secretName": "x-tls"}}


def asked(*replies, content=CONTENT):
    fake = FakeApi(*replies)

    async def main():
        async with talking_to(fake) as api:
            await CertificateStore(api, Installation("own", "x")).deliver(content)

    asyncio.run(main())
    return fake.asked


def mark_of(content):
    _, (_, _, _, body) = asked(reply({"items": [pod("one", MOUNTED)]}), reply({}), content=content)
    return body["metadata"]["annotations"][CERTIFICATE_ANNOTATION]


def test_the_mark_changes_with_what_is_served_and_tells_nothing_of_the_key():
    assert mark_of(SecretContent({**CONTENT.data, "tls.crt": b"new"}, {})) != mark_of(CONTENT)
    assert mark_of(SecretContent({**CONTENT.data, "injected-ca": b"new"}, {})) != mark_of(CONTENT)
    assert mark_of(SecretContent({**CONTENT.data, "tls.key": b"new"}, {})) == mark_of(CONTENT)


def test_without_the_right_the_kubelet_comes_by_itself():
    forbidden = reply({"message": "pods is forbidden"}, status=403)
    assert len(asked(forbidden)) == 1
    assert len(asked(reply({"items": [pod("one", MOUNTED)]}), forbidden)) == 2
