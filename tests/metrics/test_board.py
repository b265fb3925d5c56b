"""Shared memory: numbers outlive their process, gauges do not."""

from __future__ import annotations

import os
import threading
from math import isnan

from skipper_django.metrics import names
from skipper_django.metrics.board import Place
from skipper_django.metrics.recorder import Numbers


def values(place: Place) -> dict[tuple[str, ...], list[float]]:
    return {key: list(numbers) for key, numbers in place.read()}


def in_child(call: object) -> None:
    pid = os.fork()
    if not pid:
        try:
            call()  # type: ignore[operator]
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_what_a_dead_process_counted_is_still_there_and_is_gone_on_from() -> None:
    place = Place()
    key = (names.CLAIMED.name, "tenant", "queue")

    in_child(lambda: Numbers(place).add(names.CLAIMED, "tenant", "queue", amount=3))
    in_child(lambda: Numbers(place).add(names.CLAIMED, "tenant", "queue", amount=4))

    assert values(place) == {key: [7.0]}


def test_a_replacement_does_not_show_the_gauges_of_the_process_before() -> None:
    place = Place()
    Numbers(place).set(names.RUNNING, "tenant", "old", value=5)

    numbers = Numbers(place)
    numbers.set(names.RUNNING, "tenant", "new", value=0)

    found = values(place)
    assert isnan(found[names.RUNNING.name, "tenant", "old"][0])
    assert found[names.RUNNING.name, "tenant", "new"] == [0.0]


def test_a_value_lies_in_the_first_bucket_that_has_room_for_it() -> None:
    place = Place()

    Numbers(place).observe(names.SETTLE_TASKS, "t", values=[1, 2, 3, 500, 501])

    (found,) = values(place).values()
    bounds = names.SETTLE_TASKS.buckets
    assert [found[bounds.index(bound)] for bound in (1, 2, 5, 500)] == [1, 1, 1, 1]
    assert found[len(bounds) :] == [1, 1 + 2 + 3 + 500 + 501]


def test_any_text_can_be_a_label() -> None:
    place = Place()

    Numbers(place).add(names.CLAIMED, 'te"na\nnt', "\U0001f680 é")

    assert list(values(place)) == [(names.CLAIMED.name, 'te"na\nnt', "\U0001f680 é")]


def test_a_full_place_leaves_new_series_out_and_says_so() -> None:
    place = Place(4096)
    numbers = Numbers(place)

    for queue in range(200):
        numbers.add(names.CLAIMED, "tenant", f"queue-{queue}")
        numbers.observe(names.WAIT_SECONDS, "tenant", f"queue-{queue}", values=[1])
    numbers.add(names.CLAIMED, "tenant", "queue-0", amount=5)

    found = values(place)
    assert found[names.CLAIMED.name, "tenant", "queue-0"] == [6.0]
    assert 0 < len(found) < 400
    assert place.dropped > 0


def test_threads_lose_no_count() -> None:
    place = Place()
    numbers = Numbers(place)

    def count() -> None:
        for _ in range(2_000):
            numbers.add(names.CLAIMED, "tenant", "queue")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert values(place) == {(names.CLAIMED.name, "tenant", "queue"): [16_000.0]}
