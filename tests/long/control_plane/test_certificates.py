"""Certificates that never take admission down, on two real API servers: a rotation with kills."""

import threading
from contextlib import contextmanager

import httpx

from certs.observation import readable_authorities
from testbed import components
from testbed.api import Api, ApiError
from testbed.components import ADMIN_TOKEN
from testbed.process import eventually
from testbed.product import decides
from testbed.registration import labelled_pod, probe
from tests.control_plane import certified
from tests.control_plane.certified import NAME, at_rest, controlled, works

installation = certified.installation


def test_a_whole_rotation_with_kills_fails_no_create(control_plane, installation):
    second, url = components.start_apiserver(control_plane.home, control_plane.etcd_url, "second-apiserver")
    ca_file = str(control_plane.home.ca_file)
    with second, Api(url, ca_file, ADMIN_TOKEN) as other, controlled(installation) as kill:
        eventually(lambda: works(installation), "labelled pods are decided")
        eventually(lambda: decides(probe(other, installation.namespace)), "on the other API server too")
        at_rest(installation, "the first install is over")
        [before] = readable_authorities(installation.bundle())
        phases = rotate_under_creates(installation, other, kill)
        [after] = readable_authorities(installation.bundle())
    assert after != before
    assert readable_authorities(installation.secret("ca")["ca.crt"]) == (after,)
    assert len(phases) >= 2, (
        "a kill takes seconds on a slow machine, and each phase has its own; which are met differs"
    )


def rotate_under_creates(installation, other, kill):
    """Take the CA's key away, which forces a new CA; kill in each phase that shows, and give those."""
    phases = set()
    with creating(installation.namespace, installation.api, other):
        change_secret(installation, "ca", {"ca.key": None})

        def finished():
            now = installation.phase()
            if now not in phases | {"", "S0-steady"}:
                phases.add(now)
                kill()
            rests = installation.phase() == "S0-steady"
            return rests and len(readable_authorities(installation.bundle())) == 1

        eventually(lambda: installation.phase() not in ("", "S0-steady"), "the rotation has begun")
        eventually(finished, "the rotation is over", seconds=180)
    return phases


@contextmanager
def creating(namespace, *apis):
    """Create labelled pods through each API server all the time, and let none of them fail."""
    failures, created, done = [], [], threading.Event()

    def create(api):
        while not done.wait(0.05):
            try:
                api.create(labelled_pod("probe"), namespace, dry_run=True)
                created.append(api)
            except (ApiError, httpx.HTTPError) as error:
                failures.append(str(error))

    threads = [threading.Thread(target=create, args=(api,)) for api in apis]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert set(created) == set(apis)


def change_secret(installation, suffix, data):
    path = f"/api/v1/namespaces/{installation.namespace}/secrets/{NAME}-{suffix}"
    installation.api.call("PATCH", path, {"data": data}, content="application/merge-patch+json")
