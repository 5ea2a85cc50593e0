"""The page of one machine: what it shows."""

from baremetal.machine import Machine, Start
from baremetal.page import MachinePage
from tests.baremetal.support.machine import cards, served, submission
from tests.web.asking import panels, rows, shown_on, watching

[HALF] = served("half_gpu=0.5")
MACHINE = Machine(
    name="box",
    cards=cards(2),
    slices_per_gpu=8,
    queues=served("half_gpu=0.5", "dual=2"),
    faults={"GPU-1": "GPU 1 is out of service: it does not answer"},
    warnings=("nothing limits tasks",),
)


def test_the_machine_is_one_node_with_tasks_that_run_and_wait_and_lost_cards(store, tmp_path):
    store.write_machine(MACHINE)
    for queue in ("half_gpu", "dual", "gone"):
        store.submit(submission(queue), 1767225600.0)
    store.begin(Start(1, HALF, cards(1)), 1767229200.0)
    page = MachinePage(tmp_path)
    page.look(store)
    nodes, panel = shown_on(page.app)
    [whole, lost] = nodes["box"]["gpus"]
    share = {"kind": "holder", "slices": 4, "namespace": "tasks", "pod": "1", "queue": "half_gpu"}
    assert whole["shares"] == [{**share, "mib": 20480, "created": "2026-01-01T01:00:00+00:00"}]
    assert lost["cordoned"]
    [waiting] = panel["waiting"]
    assert (waiting["name"], waiting["slices"], waiting["cause"]) == ("2", 16, "waits for room")
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
        await request.until(lambda events: rows(events)["box"]["gpus"][0].get("shares"))
        after = panels(await request.until(lambda events: not panels(events)[-1]["waiting"]))[-1]
        return len(before["waiting"]), before["used"], after["used"]

    assert watching(page.app, watch) == (1, 0, 4)
