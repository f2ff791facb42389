"""One round of a flow on its worker: the model's answer, its tool calls, what the next round gets.

A round is an attempt. What it begins with is the last round's checkpoint; what it leaves is handed
to its settlement, so a round either counts whole or is run again from where it began. Tools may
thus run twice. One that must not is begun only after its start was written down under the job's
lock, and is not begun again: the model is told that nobody knows what came of it.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from threading import Event
from typing import Any

from django.db import DatabaseError

from scheduling.executors.answer import storable_text
from scheduling.executors.contract import ErrorClass, Next, Outcome, Status, Work
from scheduling.executors.tools.contract import ToolFault, cut
from scheduling.executors.tools.registry import arguments_of, replied
from scheduling.kinds.flow import flow_of, round_estimate
from scheduling.kinds.flows.contract import Call, FlowKind, Reply, State, Turn, ceiling_hit
from scheduling.kinds.flows.tools import SUBMIT_JOB, TOOL_SPECS
from scheduling.services.children import (
    Ask,
    Purse,
    Superseded,
    children_ends,
    children_submit,
)
from scheduling.services.funding import step_unfunded
from scheduling.services.starts import tool_begin
from scheduling.tasks.away import AWAY, patiently
from scheduling.tasks.ceilings import Left, bounded, left_of, price_of, stopped
from scheduling.tasks.claim import Claimed

Dispatch = Callable[[Work], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """A claimed round with its kind of flow, and what it may still use of its ceilings."""

    claimed: Claimed
    flow: FlowKind
    left: Left
    ends_at: float
    cancel: Event

    @property
    def allowed(self) -> frozenset[str]:
        """The tools that the flow was given."""
        return frozenset(self.claimed.payload.get("tools") or ())


def round_run(claimed: Claimed, work: Work, cancel: Event, dispatch: Dispatch) -> Outcome:
    """Run the round of a flow that an attempt is; `dispatch` runs its completion.

    A database that is away is waited for. Raises its errors only before the completion: what was
    paid for has an outcome.
    """
    own, state = patiently(lambda: _begun(claimed, cancel))
    flow = own.flow
    nothing = patiently(lambda: _kept_from(own, state))
    if nothing is not None:
        return _with_result(nothing, flow, state)
    request = flow.request(claimed.payload, state)
    whole = replace(work, payload=dict(request), estimate=round_estimate(request))
    asked = patiently(lambda: bounded(whole, own.left, claimed))
    if isinstance(asked, Outcome):
        return _with_result(asked, flow, state)
    outcome = dispatch(asked)
    if outcome.status is not Status.COMPLETE or outcome.result is None:
        return _with_result(outcome, flow, state)
    return _after(own, flow.answered(state, outcome.result, serial=claimed.step_fence), outcome)


def _begun(claimed: Claimed, cancel: Event) -> tuple[_Round, State]:
    flow = flow_of(claimed.payload)
    state = _state(claimed, flow)
    own = _Round(
        claimed=claimed,
        flow=flow,
        left=left_of(claimed),
        ends_at=state["began_at"] + flow.bounds(claimed.payload).seconds,
        cancel=cancel,
    )
    return own, state


def _kept_from(own: _Round, state: State) -> Outcome | None:
    """Return the outcome of a round that a ceiling or a budget keeps from beginning."""
    ceiling = ceiling_hit(state, own.flow.bounds(own.claimed.payload), now=time.time())
    if ceiling:
        return stopped(ceiling)
    if own.claimed.checkpoint is None:
        return None  # the first round is what was admitted
    unfunded = step_unfunded(job_id=own.claimed.job_id, now=datetime.now(UTC))
    return replace(stopped(unfunded.sentence), ceiling="", unfunded=unfunded) if unfunded else None


def _state(claimed: Claimed, flow: FlowKind) -> State:
    """Return where the flow stands, with what came of the jobs that it has waited for."""
    state: State = claimed.checkpoint or flow.begin(time.time())
    waited = flow.waits_for(state)
    if not waited:
        return state
    ends = {job: _as_text(end) for job, end in children_ends(waited).items()}
    return flow.told(state, ends)


def _after(own: _Round, turn: Turn, outcome: Outcome) -> Outcome:
    """Return what the round comes to: the end, a ceiling, or another step."""
    result = own.flow.result(turn.state, finished=not turn.calls)
    if not turn.calls:
        return replace(outcome, result=result)
    bounds = own.flow.bounds(own.claimed.payload)
    ceiling = ceiling_hit(turn.state, bounds, now=time.time(), more_calls=len(turn.calls))
    ceiling = ceiling or _tokens_hit(own, outcome)
    if ceiling:
        return replace(outcome, result=result, ceiling=ceiling)
    try:
        replies = _replies(own, turn, _purse(own, outcome))
    except (Superseded, *AWAY, DatabaseError) as error:
        return _undone(outcome, result, error)
    state = own.flow.replied(turn.state, replies)
    following = Next(checkpoint=state, waits=any(one.child for one in replies))
    return replace(outcome, result=own.flow.result(state, finished=False), next=following)


def _tokens_hit(own: _Round, outcome: Outcome) -> str:
    if own.left.tokens is None:
        return ""
    used = outcome.usage.input_total + outcome.usage.output_total
    if used < own.left.tokens:
        return ""
    return f"It has used the {own.claimed.max_tokens} tokens that it may use, and is not finished."


def _purse(own: _Round, outcome: Outcome) -> Purse:
    """Return what the jobs of a round may use together: what the round itself has left."""
    used = outcome.usage.input_total + outcome.usage.output_total
    left, paid = own.left, Decimal(0)
    if left.spend is not None:
        paid = patiently(lambda: price_of(own.claimed, outcome.usage))
    return Purse(
        spend=None if left.spend is None else max(Decimal(0), left.spend - paid),
        tokens=None if left.tokens is None else max(0, left.tokens - used),
    )


def _undone(outcome: Outcome, result: dict[str, Any], error: Exception) -> Outcome:
    """Return the end of a round whose calls could not be run: paid for, and to be tried again."""
    return replace(
        outcome,
        status=Status.ERROR,
        error_class=ErrorClass.INTERNAL,
        message=f"the tool calls of a round could not be run ({type(error).__name__})",
        result=result,
    )


def _replies(own: _Round, turn: Turn, purse: Purse) -> list[Reply]:
    """Run the calls of an answer, in their order; the jobs are submitted last, all at once."""
    found: dict[str, Reply] = {}
    asks: list[Ask] = []
    for call in turn.calls:
        try:
            arguments = _arguments(own, call)
            if call.name == SUBMIT_JOB:
                asks.append(Ask(key=call.key, **arguments))
            else:
                found[call.key] = Reply(call=call, text=_run(own, call, arguments))
        except ToolFault as fault:
            found[call.key] = Reply(call=call, text=f"Error: {fault}")
    found |= _submitted(own, asks, purse, {call.key: call for call in turn.calls})
    replies = [found[call.key] for call in turn.calls]
    return [replace(one, text=storable_text(one.text)) for one in replies]


def _arguments(own: _Round, call: Call) -> dict[str, Any]:
    if call.name not in own.allowed:
        given = ", ".join(sorted(own.allowed)) or "none"
        message = f"There is no tool {call.name[:60]!r}; there are: {given}."
        raise ToolFault(message)
    return arguments_of(call, TOOL_SPECS[call.name])


def _run(own: _Round, call: Call, arguments: Mapping[str, Any]) -> str:
    if own.cancel.is_set():
        raise ToolFault("The work is being stopped; the tool was not run.")
    if time.time() >= own.ends_at:
        raise ToolFault("The time of the whole work is over; the tool was not run.")
    if not TOOL_SPECS[call.name].idempotent:
        _begin_once(own, call)
    return replied(call.name, arguments, own.cancel)


def _begin_once(own: _Round, call: Call) -> None:
    """Write down that a tool begins; raise `ToolFault` if it has begun in this step before."""
    job, fence = own.claimed.job_id, own.claimed.fence
    said = json.dumps([call.name, call.arguments])
    step = own.claimed.step_fence
    if not patiently(lambda: tool_begin(job_id=job, fence=fence, step=step, said=said)):
        raise ToolFault("It was begun before and must not run twice; what came of it is unknown.")


def _submitted(
    own: _Round, asks: list[Ask], purse: Purse, calls: Mapping[str, Call]
) -> dict[str, Reply]:
    """Submit the jobs that were asked for, which share the purse; one of a round has all of it.

    A step that is run again may have left some.
    """
    again = own.claimed.fence - own.claimed.step_fence > 1
    if not asks and not (again and SUBMIT_JOB in own.allowed):
        return {}
    made = patiently(
        lambda: children_submit(
            parent_id=own.claimed.job_id,
            fence=own.claimed.fence,
            asks=asks,
            purse=purse.shared(max(1, len(asks))),
            now=datetime.now(UTC),
        )
    )
    return {
        ask.key: Reply(
            call=calls[ask.key],
            text="" if one.job else f"Error: {one.sentence}",
            child=str(one.job) if one.job else "",
        )
        for ask, one in zip(asks, made, strict=True)
    }


def _with_result(outcome: Outcome, flow: FlowKind, state: State) -> Outcome:
    """Return the outcome with what the flow has; what had arrived of an answer is kept beside it."""
    partial = {"partial_text": outcome.partial_text} if outcome.partial_text else {}
    return replace(outcome, result=flow.result(state, finished=False) | partial)


def _as_text(end: Mapping[str, Any]) -> str:
    return cut(json.dumps({name: value for name, value in end.items() if value}))
