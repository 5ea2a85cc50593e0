"""What is reported of dividing cards where there is far more than one step writes."""

import asyncio
from collections import Counter

from controller.geometry.cluster import Cluster
from controller.geometry.demand import Demand
from controller.geometry.model import MigNode
from controller.geometry.reports import Reports
from controller.geometry.selection import MAX_NAMED_OF_NAMESPACE
from modes.mig_profiles import A100_40GB
from tests.cluster.events import KeptEvents
from tests.controller.geometry.waiting import offer, pod

IN_USE = MigNode("n0", A100_40GB, (("1g.5gb",) * 7,), {"1g.5gb": 7}, paused_until=600.0)
FREE_LATER = MigNode("n1", A100_40GB, (("1g.5gb",) * 7,), paused_until=600.0)


class WrittenEvents(KeptEvents):
    def namespaces(self):
        return Counter(event["involvedObject"]["namespace"] for event in self.bodies)


def report(events, *steps):
    """Decide and report once for each of some lists of pods that wait."""
    reports, demand = Reports(events), Demand()

    async def run():
        for now, pods in enumerate(steps):
            waiting = {each.mig.uid: each for each in pods}
            decision = demand.decide(waiting, [offer("n0"), offer("n1")], [IN_USE, FREE_LATER], float(now))
            await reports.waiting(Cluster([], waiting), decision, lambda _: "later")

    asyncio.run(run())


def impossible(namespace, count):
    return [pod(f"{namespace}-{at}", "9g.99gb", namespace=namespace, created="1") for at in range(count)]


def test_pods_that_can_never_run_do_not_keep_others_from_getting_events():
    events = WrittenEvents()
    waits = pod("waits", "7g.40gb", namespace="modest", created="2")
    report(events, [*impossible("evil", 2 * MAX_NAMED_OF_NAMESPACE), waits])
    assert events.namespaces() == {"evil": MAX_NAMED_OF_NAMESPACE, "modest": 1}


def test_what_stays_true_is_written_once():
    events = WrittenEvents()
    report(events, *[impossible("team", 3)] * 3)
    assert events.namespaces() == {"team": 3}
