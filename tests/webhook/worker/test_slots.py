"""Workers are given out in turn by namespace, and what waits for one is bounded."""

import asyncio

import pytest

from webhook.worker.slots import FullError, Slots


async def turns(number=3):
    """Let every task that can go on do so."""
    for _ in range(number):
        await asyncio.sleep(0)


async def queue(slots, order, *names):
    """Tasks that wait for a slot, and write down when they get it."""

    async def wait(name):
        await slots.acquire(name[0], 1)
        order.append(name)

    tasks = [asyncio.ensure_future(wait(name)) for name in names]
    await turns()
    return tasks


def test_so_many_go_at_once_and_the_next_when_one_is_done():
    async def check():
        slots, order = Slots(2, 10, 100), []
        await queue(slots, order, "a1", "a2", "a3")
        assert order == ["a1", "a2"]
        slots.release()
        await turns()
        assert order == ["a1", "a2", "a3"]
        for _ in range(2):
            slots.release()
        await queue(slots, order, "b1", "b2", "b3")
        assert order[3:] == ["b1", "b2"]

    asyncio.run(check())


def test_namespaces_take_turns_however_much_one_of_them_asks():
    async def check():
        slots, order = Slots(1, 10, 100), []
        await queue(slots, order, "x0", "a1", "a2", "a3", "b1", "c1", "b2")
        for _ in range(6):
            slots.release()
            await turns()
        assert order == ["x0", "a1", "b1", "c1", "a2", "b2", "a3"]

    asyncio.run(check())


def test_where_too_many_wait_the_namespace_with_the_most_loses_its_last():
    async def check():
        slots, order = Slots(1, 3, 100), []
        tasks = await queue(slots, order, "x0", "a1", "a2", "a3", "b1")
        with pytest.raises(FullError):
            await tasks[3]
        for _ in range(3):
            slots.release()
            await turns()
        assert order == ["x0", "a1", "b1", "a2"]

    asyncio.run(check())


def test_so_it_is_where_they_hold_too_many_bytes():
    async def check():
        slots = Slots(1, 10, 100)
        await slots.acquire("x", 1000)
        kept = asyncio.ensure_future(slots.acquire("b", 60))
        await turns()
        with pytest.raises(FullError):
            await slots.acquire("a", 61)
        slots.release()
        await kept

    asyncio.run(check())


def test_who_waits_no_longer_leaves_nothing_behind():
    async def check():
        slots, order = Slots(1, 10, 100), []
        tasks = await queue(slots, order, "x0", "a1", "b1")
        tasks[1].cancel()
        await turns()
        slots.release()
        await turns()
        assert order == ["x0", "b1"]

    asyncio.run(check())


def test_a_slot_that_comes_when_nobody_waits_any_more_goes_to_the_next():
    async def check():
        slots, order = Slots(1, 10, 100), []
        tasks = await queue(slots, order, "x0", "a1", "b1")
        slots.release()
        tasks[1].cancel()
        await turns()
        assert order == ["x0", "b1"]

    asyncio.run(check())


def test_many_small_reviews_of_one_namespace_displace_no_large_one_of_another():
    async def check():
        slots = Slots(1, 3, 100)
        await slots.acquire("x", 1)
        many = [asyncio.ensure_future(slots.acquire("a", 1)) for _ in range(3)]
        large = asyncio.ensure_future(slots.acquire("b", 90))
        await turns()
        assert [task.done() for task in (*many, large)] == [False, False, True, False]
        with pytest.raises(FullError):
            await many[2]
        for task in (*many, large):
            task.cancel()

    asyncio.run(check())


def test_a_large_review_displaces_as_many_as_it_takes_the_place_of():
    async def check():
        slots = Slots(1, 10, 100)
        await slots.acquire("x", 1)
        small = [asyncio.ensure_future(slots.acquire("a", 20)) for _ in range(5)]
        large = asyncio.ensure_future(slots.acquire("b", 50))
        await turns()
        assert [task.done() for task in (*small, large)] == [False, False, True, True, True, False]
        for task in small[2:]:
            with pytest.raises(FullError):
                await task
        for task in (*small[:2], large):
            task.cancel()

    asyncio.run(check())
