"""What walks over all nodes find is kept for pods that wait for the same."""

from controller.pods.walks import Walks


async def test_of_very_many_kinds_of_pods_each_has_its_turn():
    now, found = [0.0], set()
    walks = Walks[str](lambda: now[0], 0.25)

    async def walk():
        return "nodes"

    for _ in range(400):
        for kind in range(100):
            if await walks.find(kind, walk) is not None:
                found.add(kind)
        now[0] += 0.25
    assert found == set(range(100))
