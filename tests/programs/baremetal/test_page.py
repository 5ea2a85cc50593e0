"""The page of one machine: that only this machine reaches it, and what a browser shows."""

import json
import re
from pathlib import Path

import httpx
import pytest

from testbed.process import eventually
from tests.browser_fixture import browser, open_page
from tests.programs.baremetal.processes import Lab

__all__ = ["browser", "open_page"]


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path, 3)
    yield made
    made.close()


def address_of(lab):
    """The address that the runner logs."""
    found = [json.loads(line) for line in lab.log.read_text().splitlines() if '"event":"page"' in line]
    return next(iter(found), {}).get("address")


def serve(lab):
    """A runner with a page on a free port, and a task that runs."""
    number = lab.submit("half_gpu", "sh", "-c", "while :; do sleep 1; done")
    lab.start("--gpus", "0-2", "--queue", "half_gpu=0.5", "--page-port", "0")
    lab.until(lambda tasks: tasks[number].state == "running", "it runs")
    return eventually(lambda: address_of(lab), "the page")


def test_run_queues_serves_the_page_on_loopback_alone(lab):
    address = serve(lab)
    port = int(re.search(r":(\d+)/$", address)[1])
    assert "<title>GPU fractions</title>" in httpx.get(address, timeout=60).text
    assert httpx.get(address, headers={"host": "elsewhere.example"}, timeout=60).status_code == 421
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    listening = [fields[1] for fields in sockets if fields[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_a_browser_shows_cards_and_tasks_as_they_come_and_go(lab, open_page):
    tab = open_page(serve(lab)).tab
    tab.wait_for_selector("#state:text-is('live')")
    assert tab.locator(".gpu").count() == 3
    tab.wait_for_selector(".gpu[aria-label*='tasks/1 4 slices']")
    [label] = [
        text for each in tab.locator(".gpu").all() if "tasks/1" in (text := each.get_attribute("aria-label"))
    ]
    assert "queue half_gpu" in label
    for _ in range(6):
        lab.submit("half_gpu", "sh", "-c", "while :; do sleep 1; done")
    tab.wait_for_selector("#waiting b")
    assert "queue half_gpu asks for 0.5" in tab.inner_text("#waiting")
    lab.cancel(1)
    tab.wait_for_selector("#waiting-none:visible")
