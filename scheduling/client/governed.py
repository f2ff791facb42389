"""`governed(client)`: any model client, under the scheduler: acquire, call, record, release.

    complete = governed(openai.OpenAI().chat.completions.create,
                        tenant="acme", workspace="web", workflow="support")
    answer = complete(model="small", messages=[...])

The wrapped callable takes and returns what the client does. Each call waits for a slot in the fair
order, within budgets and limits, and books what the answer's usage says. It works in a plain
process with Django set up and in a Celery task. `slot_now()` tells, inside the call, which
executor was chosen. A coroutine function gives a coroutine function; of an answer that comes in
pieces, the slot is held until the last one.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast

from scheduling.client.scheduler import Scheduler
from scheduling.client.slot import Slot, in_thread
from scheduling.client.streams import HeldAsyncStream, HeldStream, is_stream
from scheduling.kinds.chat import DEFAULT_OUTPUT_TOKENS, TOKENS_PER_REQUEST
from scheduling.kinds.messages import message_faults, message_tokens
from scheduling.kinds.tokens import text_tokens
from scheduling.services.drafts import Submission

P = ParamSpec("P")
R = TypeVar("R")


class Acquire(Protocol):
    """Waits for the slot of a call with these keyword arguments, until it is given up."""

    def __call__(
        self, given: Mapping[str, Any], given_up: threading.Event | None = None, /
    ) -> Slot: ...


class Options(TypedDict, total=False):
    """What may be said of the calls of a governed client.

    `name` is who submits, `timeout_s` how long a call waits for its slot. `model` stands for the
    call's own `model`. `input_tokens` and `output_tokens` are the estimate of a call, else it is
    made from its `messages` and `max_tokens`. The rest is as in a `Submission`.
    """

    name: str
    timeout_s: float | None
    purpose: str
    model: str
    input_tokens: int
    output_tokens: int
    seconds: float | None
    mission: str
    job_class: str
    cost: int | None


def governed(
    client: Callable[P, R],
    *,
    tenant: str,
    workspace: str,
    workflow: str,
    **options: Unpack[Options],
) -> Callable[P, R]:
    """Return `client` under the scheduler; each call may raise what `Scheduler.acquire` raises."""
    timeout_s = options.get("timeout_s")

    def acquire(given: Mapping[str, Any], given_up: threading.Event | None = None) -> Slot:
        scheduler = Scheduler.of(tenant, workspace, name=options.get("name", "library"))
        job = submission_of(workflow, given, options)
        return scheduler.acquire(job, timeout_s=timeout_s, given_up=given_up)

    if inspect.iscoroutinefunction(client):
        waits = cast("Callable[P, Awaitable[Any]]", client)
        return cast("Callable[P, R]", _awaited(waits, acquire))

    @functools.wraps(client)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        slot = acquire(kwargs)
        try:
            with slot.at_hand():
                answer = client(*args, **kwargs)
        except BaseException as error:
            slot.fail(error)
            raise
        if is_stream(answer):
            return cast("R", HeldStream(answer, slot))
        slot.complete(answer)
        return answer

    return call


def _awaited(client: Callable[P, Awaitable[R]], acquire: Acquire) -> Callable[P, Awaitable[R]]:
    @functools.wraps(client)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        slot = await _slot_of(acquire, kwargs)
        try:
            with slot.at_hand():
                answer = await client(*args, **kwargs)
        except BaseException as error:
            await in_thread(slot.fail, error)
            raise
        if is_stream(answer):
            return cast("R", HeldAsyncStream(answer, slot))
        await in_thread(slot.complete, answer)
        return answer

    return call


async def _slot_of(acquire: Acquire, given: Mapping[str, Any]) -> Slot:
    """Wait for a slot in a thread; a coroutine that is canceled meanwhile leaves none behind.

    The thread cannot be stopped: it learns that nobody waits, and gives back what it still gets.
    """
    given_up, handing_over, handed = threading.Event(), threading.Lock(), list[Slot]()

    def wait() -> None:
        slot = acquire(given, given_up)
        with handing_over:
            if not given_up.is_set():
                handed.append(slot)
                return
        slot.release()

    try:
        await asyncio.to_thread(wait)
    except asyncio.CancelledError:
        with handing_over:
            given_up.set()
        for slot in handed:
            await in_thread(Slot.release, slot)
        raise
    return handed[0]


def submission_of(workflow: str, given: Mapping[str, Any], options: Options) -> Submission:
    """Return the job that asks for the slot of a call with the keyword arguments `given`."""
    model = options.get("model", given.get("model"))
    seconds = options.get("seconds")
    return Submission(
        workflow=workflow,
        kind="call",
        payload={
            "purpose": options.get("purpose", ""),
            "input_tokens": options.get("input_tokens", _input_tokens(given)),
            "output_tokens": options.get("output_tokens", _output_tokens(given)),
        },
        model=model if isinstance(model, str) else "",
        mission=options.get("mission", ""),
        job_class=options.get("job_class", ""),
        cost=options.get("cost"),
        expected_s=seconds,
        max_attempts=1,
        idempotent=False,
    )


def _input_tokens(given: Mapping[str, Any]) -> int:
    messages = given.get("messages")
    told = messages if isinstance(messages, list | tuple) else ()
    return TOKENS_PER_REQUEST + sum(map(_message_tokens, told))


def _message_tokens(message: object) -> int:
    """Return the tokens of a message in our form; of a library's own object, of its text."""
    if isinstance(message, dict) and not message_faults([message]):
        return message_tokens(message)
    return text_tokens(str(message))


def _output_tokens(given: Mapping[str, Any]) -> int:
    limits = (given.get("max_tokens"), given.get("max_completion_tokens"))
    told = [one for one in limits if isinstance(one, int) and not isinstance(one, bool)]
    return min(told, default=DEFAULT_OUTPUT_TOKENS)
