"""An hour of a tenant that always asks for what the cards are not divided into."""

from tests.controller.geometry.tenants import DIVISION_S, TURN_S, Tenants

HOURS = 1


def test_a_tenant_that_always_asks_for_other_instances_leaves_nodes_to_others_most_of_the_time():
    pause = 600.0
    tenants = Tenants.on(pause_seconds=pause)
    share = tenants.run(HOURS)
    # The cordon stands a few turns longer than the division: to drain, to see the end.
    assert share <= (DIVISION_S + 4 * TURN_S) / (DIVISION_S + pause)
    assert len(tenants.waits) == HOURS
    assert not tenants.still_waiting
