"""The page of one machine: what it shows, and that only this machine reaches it."""

import json
import re
import socket
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from baremetal.machine import Machine, Start
from baremetal.page import MachinePage
from baremetal.store import TaskStore
from testbed.process import ProcessError, eventually
from tests.baremetal.support.machine import cards, served, submission
from tests.baremetal.support.processes import Lab
from tests.browser_fixture import browser, open_page
from tests.web.asking import get, panels, rows, watching

__all__ = ["browser", "open_page"]
[HALF] = served("half_gpu=0.5")
MACHINE = Machine(
    name="box",
    cards=cards(2),
    slices_per_gpu=8,
    queues=served("half_gpu=0.5", "dual=2"),
    faults={"GPU-1": "GPU 1 is out of service: it does not answer"},
    warnings=("nothing limits tasks",),
)


@pytest.fixture
def store(tmp_path):
    with closing(TaskStore(tmp_path)) as opened:
        yield opened


def shown(page):
    """The nodes and the panels that a viewer gets."""

    async def watch(request):
        events = await request.until(panels)
        return rows(events), panels(events)[-1]

    return watching(page.app, watch)


def test_the_machine_is_one_node_with_tasks_that_run_and_wait_and_lost_cards(store, tmp_path):
    store.write_machine(MACHINE)
    for queue in ("half_gpu", "dual", "gone"):
        store.submit(submission(queue), 1767225600.0)
    store.begin(Start(1, HALF, cards(1)), 1767229200.0)
    page = MachinePage(tmp_path)
    page.look(store)
    nodes, panel = shown(page)
    [whole, lost] = nodes["box"]["gpus"]
    assert whole["shares"] == [
        {
            "kind": "holder",
            "slices": 4,
            "namespace": "tasks",
            "pod": "1",
            "queue": "half_gpu",
            "mib": 20480,
            "created": "2026-01-01T01:00:00+00:00",
        }
    ]
    assert lost["cordoned"]
    [waiting] = panel["waiting"]
    assert (waiting["name"], waiting["slices"], waiting["cause"]) == ("2", 16, "queue dual asks for 2")
    assert waiting["created"] == "2026-01-01T00:00:00+00:00"
    assert panel["role"] == (
        "queues of box; GPU 1 is out of service: it does not answer; nothing limits tasks"
    )


def test_what_changes_is_shown_without_a_reload(store, tmp_path):
    store.write_machine(MACHINE)
    store.submit(submission("half_gpu"), 1.0)
    page = MachinePage(tmp_path)
    page.look(store)

    async def watch(request):
        before = panels(await request.until(panels))[-1]
        store.begin(Start(1, HALF, cards(1)), 2.0)
        page.look(store)
        events = await request.until(lambda events: rows(events)["box"]["gpus"][0].get("shares"))
        after = panels(await request.until(lambda events: not panels(events)[-1]["waiting"]))[-1]
        return len(before["waiting"]), before["used"], after["used"], bool(events)

    assert watching(page.app, watch) == (1, 0, 4, True)


def test_before_a_runner_said_what_it_serves_the_page_says_so(store, tmp_path):
    page = MachinePage(tmp_path)
    page.look(store)
    answer = get(page.app, "/stream")
    assert (answer.status, answer.body) == (
        503,
        b"run-queues has not reported yet what it serves: try again\n",
    )


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


@pytest.mark.slow
def test_run_queues_serves_the_page_on_loopback_alone(lab):
    address = serve(lab)
    port = int(re.search(r":(\d+)/$", address)[1])
    assert "<title>GPU fractions</title>" in httpx.get(address, timeout=60).text
    assert httpx.get(address, headers={"host": "elsewhere.example"}, timeout=60).status_code == 421
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    listening = [fields[1] for fields in sockets if fields[3] == "0A"]
    assert [each for each in listening if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


@pytest.mark.slow
def test_a_port_that_is_taken_ends_the_command_with_one_line(lab):
    advice = "stop what listens there, or choose another address or port"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ProcessError, match=advice):
        lab.start("--queue", "half_gpu=0.5", "--page-port", str(taken.getsockname()[1]))


@pytest.mark.slow
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
