"""Which task starts next: the example, order, and fairness."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal.machine import PATIENCE
from tests.baremetal.support.machine import SEED, first, held, machine, served
from tests.effort import examples


def indices(start):
    return tuple(card.index for card in start.cards)


def start_all(queues, waiting, box, overtaken=None):
    """Start what can start now: the first of each queue, as the store would give it."""
    overtaken = Counter() if overtaken is None else overtaken
    started = []
    while True:
        heads = {name: first(tasks[0], overtaken[tasks[0]]) for name, tasks in waiting.items() if tasks}
        start = box.next_start(heads, *queues)
        if start is None:
            return started
        box.adopt(held(start.task, start.queue.fraction.slices_on_each, *indices(start)))
        overtaken.update(start.overtook)
        waiting[start.queue.name].pop(0)
        started.append(start)


def test_the_example_puts_two_cards_a_quarter_and_a_half_on_three_cards_and_the_single_one_waits():
    queues, box = served(*SEED), machine(3)
    waiting = {"dual_gpus": [1], "quarter_gpu": [2], "half_gpu": [3], "single_gpu": [4]}
    started = start_all(queues, waiting, box)
    assert [(each.queue.name, indices(each)) for each in started] == [
        ("dual_gpus", (0, 1)),
        ("quarter_gpu", (2,)),
        ("half_gpu", (2,)),
    ]
    assert waiting["single_gpu"] == [4]
    assert box.free() == {0: 0, 1: 0, 2: 2}
    box.release(1)
    assert [(each.task, indices(each)) for each in start_all(queues, waiting, box)] == [(4, (0,))]


def test_cards_are_kept_for_a_task_that_was_overtaken_often_and_only_as_many_as_it_needs():
    queues, box = served("whole=1", "half=0.5"), machine(2)
    box.adopt(held(9, 4, 0))
    box.adopt(held(8, 2, 1))
    heads = {"whole": first(1, PATIENCE), "half": first(2)}
    start = box.next_start(heads, *queues)
    assert (start.task, indices(start)) == (2, (0,))
    box.adopt(held(2, 4, 0))
    assert box.next_start(heads | {"half": first(3)}, *queues) is None


def test_no_cards_are_kept_for_a_task_that_the_cards_in_service_cannot_hold():
    queues, box = served("dual=2", "half=0.5"), machine(2)
    box.lose(0)
    start = box.next_start({"dual": first(1, PATIENCE), "half": first(2)}, *queues)
    assert start.task == 2


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.randoms(use_true_random=False))
def test_a_stream_of_small_tasks_does_not_keep_a_large_one_of_an_earlier_queue_waiting(count, length, random):
    """Tasks end, so that a kept card becomes idle; without keeping it never would."""
    queues = served(f"large={count}", "small=0.5", "tiny=0.125")
    box, overtaken = machine(count), Counter()
    waiting = {"large": [], "small": list(range(1000, 1900)), "tiny": list(range(2000, 2900))}
    running = {each.task: random.randint(1, length) for each in start_all(queues, waiting, box, overtaken)}
    waiting["large"].append(1)
    passed = 0
    for _ in range(1000):
        running = {task: left - 1 for task, left in running.items()}
        for task in [task for task, left in running.items() if not left]:
            box.release(task)
            del running[task]
        started = start_all(queues, waiting, box, overtaken)
        passed += sum(each.task != 1 for each in started)
        if any(each.task == 1 for each in started):
            break
        running |= {each.task: random.randint(1, length) for each in started}
    else:
        raise AssertionError(f"the large task waits behind {passed} small ones")
    # A card in whose place another is kept may fill once more; each card does so once for each slice at most.
    assert passed <= 16 + 8 * count


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(1, 4), st.randoms(use_true_random=False))
def test_tasks_of_a_queue_start_in_their_order_and_nothing_waits_that_has_room(count, random):
    queues = served("dual=2", "half=0.5", "eighth=0.125", "single=1") if count > 1 else served("half=0.5")
    waiting = {each.name: [] for each in queues}
    box, running, order = machine(count), [], {each.name: [] for each in queues}
    number = 0
    for _ in range(30):
        for _ in range(random.randint(0, 3)):
            number += 1
            waiting[random.choice(queues).name].append(number)
        for task in [task for task in running if random.random() < 0.4]:
            running.remove(task)
            box.release(task)
        lost = {index for index in range(count) if random.random() < 0.2}
        box.lose(*lost)
        for start in start_all(queues, waiting, box):
            running.append(start.task)
            order[start.queue.name].append(start.task)
            assert lost.isdisjoint(indices(start))
        assert min(box.free().values()) >= 0, "a card is over full"
        free = [slices for index, slices in box.free().items() if index not in lost]
        for queue in queues:
            if waiting[queue.name]:
                assert sum(each >= queue.fraction.slices_on_each for each in free) < queue.fraction.gpus
    assert all(tasks == sorted(tasks) for tasks in order.values())
