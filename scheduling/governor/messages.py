"""Messages: what is placed is told to the broker, in lists, and to callers who wait for a slot.

The broker carries messages, never truth: one that is lost is sent again, one that comes twice finds
nothing to claim. A single connection is kept open, and a message is published on it as `apply_async` would:
that would take a connection from Celery's pool and look up what we do not use, which takes as long again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kombu.entity import PERSISTENT_DELIVERY_MODE
from kombu.exceptions import OperationalError
from kombu.messaging import Producer

from scheduling.events import callers_nudge
from scheduling.governor.config import LIST_MOST, LIST_S
from scheduling.tasks.execute import attempts_run
from tenants.ids import new_id


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt as its message names it, with the queue and the seconds that it should run.

    `caller_of` is the job whose caller is to take it, and `queue` empty where no worker is told.
    """

    attempt: str
    fence: int
    queue: str
    run_s: float
    caller_of: str = ""


class Messages:
    """The way to workers and callers; for one thread."""

    def __init__(self) -> None:
        """Connect at the first message."""
        self._producer: Producer | None = None
        self._declared: set[str] = set()

    def send(self, batch: Iterable[Sent]) -> None:
        """Tell the broker, in lists, and callers that wait; what nobody of ours runs is not sent.

        Raises kombu's `OperationalError` when the broker is away (they are sent again); the next
        call connects anew.
        """
        queues: dict[str, list[Sent]] = defaultdict(list)
        callers: list[str] = []
        for one in batch:
            if one.queue:
                queues[one.queue].append(one)
            elif one.caller_of:
                callers.append(one.caller_of)
        if callers:
            callers_nudge(callers)
        for queue, sent in queues.items():
            for part in lists(sent):
                self._post(queue, [(one.attempt, one.fence) for one in part])

    def close(self) -> None:
        """Give the connection back, if there is one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.connection.release()

    def _post(self, queue: str, pairs: list[tuple[str, int]]) -> None:
        app = attempts_run.app
        if self._producer is None:
            # No second try here: the leader would wait for it longer than its lease lasts.
            link = app.connection_for_write(transport_options={"max_retries": 0})
            self._producer = app.amqp.Producer(link, serializer=app.conf.task_serializer)
            self._declared.clear()
        headers, properties, body, _ = app.amqp.create_task_message(
            str(new_id()),
            attempts_run.name,
            (pairs,),
            argsrepr="",
            kwargsrepr="",
            ignore_result=True,
        )
        link, known = self._producer.connection, queue in self._declared
        declare = None if known else [app.amqp.queues[queue]]
        try:
            self._producer.publish(
                body,
                exchange="",  # the default one, which knows each queue by its name
                routing_key=queue,
                declare=declare,
                headers=headers,
                delivery_mode=PERSISTENT_DELIVERY_MODE,
                **properties,
            )
        except (OperationalError, *link.connection_errors, *link.channel_errors) as error:
            self.close()
            raise OperationalError(type(error).__name__) from error
        self._declared.add(queue)


def lists(sent: Sequence[Sent]) -> list[list[Sent]]:
    """Cut attempts into messages: long ones alone, short ones up to `LIST_S` together.

    The lists are kept short enough that at least two workers can share a batch.
    """
    most = min(LIST_MOST, max(1, -(-len(sent) // 2)))
    messages: list[list[Sent]] = []
    seconds = 0.0
    for one in sent:
        fits = messages and len(messages[-1]) < most and seconds + one.run_s <= LIST_S
        if fits:
            messages[-1].append(one)
            seconds += one.run_s
        else:
            messages.append([one])
            seconds = one.run_s
    return messages
