"""Dead letter queues that the broker creates (profile I).

errors.deadletterqueue.auto.create.topics.enable allows the broker to create them.
"""

from __future__ import annotations

from tests.conformance import dead_letters as dlq
from tests.conformance import share_looks as looks
from tests.conformance.dead_letters import COPY, plain
from tests.conformance.shares import REJECT
from tests.conformance.stage import Area, Stage

AREA = Area("share_dead_letters_created", "i")


@AREA.each(copy=["false", "true"])
def created_by_the_first_letter(t: Stage, copy: str) -> None:
    """A missing queue is created with the default number of partitions."""
    queue = dlq.queue_name(t)
    (topic, _), a = dlq.reader_of(t, queue, partitions=3, configs={COPY: copy})
    places = [(topic, index) for index in range(3)]
    dlq.topic_configs(t, queue, "before")
    for place in places:
        dlq.send(t, place, plain(2))
        a.fetch(place)
        a.home = place
        a.acknowledge([(0, 1, REJECT)])
        dlq.settled(t, place)
        looks.stored(t, place)
    dlq.topic_configs(t, queue)
    for index in range(2):
        dlq.letters(t, queue, index)


@AREA.each(prefix=["other.", "dlq", "dlq.a b."])
def names_that_are_not_created(t: Stage, prefix: str) -> None:
    """The queue does not exist, and its name begins with {prefix}."""
    queue = dlq.queue_name(t, prefix)
    place, a = dlq.reader_of(t, "dlq.x", plain(3))
    t.rec("set", looks.alter_configs(t, {dlq.QUEUE: queue}))
    t.nap(0.3)
    a.fetch(place)
    a.acknowledge([(0, 2, REJECT)])
    dlq.settled(t, place)
    looks.stored(t, place)
    dlq.topic_configs(t, queue)


@AREA.scenario
def existing_topic_that_is_no_queue(t: Stage) -> None:
    """An existing topic that is not a queue does not become one."""
    queue = dlq.queue(t, configs={dlq.IS_QUEUE: "false"})
    place, a = dlq.reader_of(t, queue, plain(3))
    a.fetch(place)
    a.acknowledge([(0, 2, REJECT)])
    dlq.settled(t, place)
    looks.stored(t, place)
    dlq.topic_configs(t, queue)
    dlq.letters(t, queue)


@AREA.scenario
def deleted_and_created_again(t: Stage) -> None:
    """The queue is deleted between two rejections."""
    queue = dlq.queue_name(t)
    place, a = dlq.reader_of(t, queue, plain(1), plain(1))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 0, REJECT)])
    dlq.settled(t, place)
    dlq.letters(t, queue)
    t.delete_topic(queue)
    a.fetch()
    a.acknowledge([(1, 1, REJECT)])
    dlq.settled(t, place)
    dlq.letters(t, queue)


@AREA.scenario
def collides_with_another_topic(t: Stage) -> None:
    """A topic whose name differs from the queue's only by `.` and `_` prevents the creation."""
    other = dlq.queue(t, prefix="dlq_")
    queue = dlq.queue_name(t)
    place, a = dlq.reader_of(t, queue, plain(1))
    a.fetch(place)
    a.acknowledge([(0, 0, REJECT)])
    dlq.settled(t, place)
    looks.stored(t, place)
    dlq.topic_configs(t, queue)
    dlq.letters(t, other)
