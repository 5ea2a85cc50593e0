"""The page of one machine: that only this machine reaches it."""

import json
import re
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from testbed.process import eventually
from tests.product import ROOT
from tests.programs.baremetal.processes import Lab


@pytest.fixture
def lab(tmp_path):
    with closing(Lab(tmp_path, 3)) as made:
        yield made


def address_of(lab):
    found = [json.loads(line) for line in lab.log.read_text().splitlines() if '"event":"page"' in line]
    return next(iter(found), {}).get("address")


def test_run_queues_serves_the_page_on_loopback_alone(lab):
    assert "`--page-port 9081`" in (ROOT / "docs/getting-started/bare-metal.md").read_text()
    lab.start("--queue", "half_gpu=0.5", "--page-port", "0")
    address = eventually(lambda: address_of(lab), "the page")
    port = int(re.search(r":(\d+)/$", address)[1])
    assert "<title>GPU fractions</title>" in httpx.get(address, timeout=60).text
    assert httpx.get(address, headers={"host": "elsewhere.example"}, timeout=60).status_code == 421
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    listening = [fields[1] for fields in sockets if fields[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
