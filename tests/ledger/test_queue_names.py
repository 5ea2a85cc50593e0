"""Labels that the ClearML agent makes of names of queues."""

from ledger.queue_names import names_of_keys, queue_keys, sanitised


def test_labels_of_queues_are_small_with_dashes():
    assert sanitised("gpu-fraction-0_500") == "gpu-fraction-0-500"
    assert sanitised("My Queue.v2") == "my-queue-v2"


def test_names_and_ids_come_back_from_the_keys_of_a_queue():
    assert names_of_keys(queue_keys("My Queue", "id-1")) == ("my-queue", "id-1")
    assert names_of_keys(queue_keys(None, None)) == (None, None)
