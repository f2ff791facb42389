"""Flows without the network: payloads, and the way from a state to a request and on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.executors.answer import storable_text
from scheduling.kinds.contract import InvalidPayload, ModelAnswer
from scheduling.kinds.flow import Flow, flow_of, round_estimate
from scheduling.kinds.flows.contract import Bounds, Reply, ceiling_hit
from scheduling.kinds.flows.registry import FLOWS
from scheduling.kinds.flows.tools import TOOL_SPECS
from scheduling.kinds.registry import model_kind_named

USER = {"role": "user", "content": "What is 2 + 3?"}
AGENT = FLOWS["agent"]
FLOW = Flow()


def flow(**more):
    return {"flow": "agent", "messages": [USER], **more}


def call(name="calculator", call_id="c1", **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def answer(text="", *calls):
    whole = ModelAnswer(text=text, tool_calls=calls, finish_reason="stop", model="m")
    return FLOW.result(whole)


@pytest.mark.parametrize(
    "payload",
    [
        flow(),
        flow(tools=["calculator", "submit_job"], max_steps=200, max_tool_calls=1, max_seconds=5),
        flow(tools=None, temperature=0, max_tokens=7, stop=["x"], seed=1, parallel_tool_calls=True),
        flow(tools=[]),
    ],
)
def test_a_good_flow_is_accepted_estimated_at_its_first_round_and_asked_as_a_chat(payload):
    FLOW.validate(payload)
    request = AGENT.request(payload, AGENT.begin(0.0))
    model_kind_named("chat").validate(request)
    assert FLOW.estimate(payload) == round_estimate(request)
    sent = FLOW.request(request, "m")
    assert sent.messages == (USER,)
    assert [tool["function"]["name"] for tool in sent.params.get("tools", ())] == [
        *(payload.get("tools") or ())
    ]


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({"messages": [USER]}, ["flow"]),
        (flow() | {"flow": "dream"}, ["flow"]),
        ({"flow": "agent"}, ["messages"]),
        (flow(tools=["teleport"]), ["tools"]),
        (flow(tools=[{}]), ["tools"]),
        (flow(tools="calculator"), ["tools"]),
        (flow(tools=["calculator", "calculator"]), ["tools"]),
        (flow(max_steps=0), ["max_steps"]),
        (flow(max_steps=201), ["max_steps"]),
        (flow(max_tool_calls=True), ["max_tool_calls"]),
        (flow(max_seconds="9"), ["max_seconds"]),
        (flow(temperature=9), ["temperature"]),
        (flow(tool_choice="auto", model="m"), ["tool_choice", "model"]),
        (flow() | {"messages": [{"role": "user", "content": "\0"}]}, ["messages[0].content"]),
    ],
)
def test_a_bad_flow_names_every_bad_field(payload, fields):
    with pytest.raises(InvalidPayload) as caught:
        FLOW.validate(payload)
    assert [fault.field for fault in caught.value.faults] == fields


def test_an_answer_without_calls_ends_the_flow_with_its_text():
    turn = AGENT.answered(AGENT.begin(1.0), answer("Five."), serial=0)
    assert turn.calls == ()
    assert AGENT.result(turn.state, finished=True) == {
        "text": "Five.", "finished": True, "rounds": 1, "tool_calls": 0, "finish_reason": "stop",
        "model": "m",
    }  # fmt: skip


def test_null_content_beside_tool_calls_goes_back_as_it_came():
    """Case C29."""
    turn = AGENT.answered(AGENT.begin(1.0), answer("", call(expression="2+3")), serial=4)
    (asked,) = turn.calls
    assert (asked.key, asked.id, asked.name) == ("4.0", "c1", "calculator")
    state = AGENT.replied(turn.state, [Reply(call=asked, text="5")])
    request = AGENT.request(flow(tools=["calculator"]), state)
    model_kind_named("chat").validate(request)
    assert list(FLOW.request(request, "m").messages) == [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call(expression="2+3")]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
    ]


def test_calls_without_an_id_or_with_the_same_one_are_told_apart():
    calls = [call(call_id=""), call(call_id="c1"), call(call_id="c1")]
    turn = AGENT.answered(AGENT.begin(1.0), answer("", *calls), serial=2)
    assert [one.id for one in turn.calls] == ["call_2_0", "c1", "call_2_2"]
    assert [one.key for one in turn.calls] == ["2.0", "2.1", "2.2"]


def test_a_reply_that_is_still_to_come_is_filled_in_when_its_job_has_ended():
    turn = AGENT.answered(AGENT.begin(1.0), answer("", call("submit_job"), call()), serial=0)
    first, second = turn.calls
    state = AGENT.replied(
        turn.state, [Reply(call=first, child="job-1"), Reply(call=second, text="5")]
    )
    assert AGENT.waits_for(state) == ("job-1",)
    told = AGENT.told(state, {"job-1": "done"})
    assert AGENT.waits_for(told) == ()
    assert [one["content"] for one in told["messages"][1:]] == ["done", "5"]
    assert AGENT.waits_for(state) == ("job-1",)


BOUNDS = Bounds(steps=3, tool_calls=5, seconds=60.0)


@pytest.mark.parametrize(
    ("state", "more", "now", "word"),
    [
        ({}, 0, 59.9, ""),
        ({"rounds": 2, "tool_calls": 3}, 2, 0.0, ""),
        ({"rounds": 3}, 0, 0.0, "3 rounds"),
        ({"tool_calls": 3}, 3, 0.0, "5 tool calls"),
        ({}, 0, 60.0, "60 seconds"),
    ],
)
def test_each_ceiling_stops_at_its_own_measure_and_says_which(state, more, now, word):
    whole = {**AGENT.begin(0.0), **state}
    said = ceiling_hit(whole, BOUNDS, now=now, more_calls=more)
    assert (word in said) if word else said == ""


def test_bounds_are_the_payloads_or_the_usual_ones():
    assert AGENT.bounds(flow(max_steps=7)) == Bounds(steps=7, tool_calls=100, seconds=3_600.0)
    assert flow_of(flow()) is AGENT


def test_a_tools_definition_names_its_arguments():
    told = TOOL_SPECS["calculator"].definition()["function"]
    assert told["parameters"]["required"] == ["expression"]


texts = st.text(max_size=8).map(storable_text)  # as an executor hands them over
answers = st.builds(
    answer,
    texts,
    st.builds(call, st.sampled_from(["calculator", "teleport"]), st.sampled_from(["", "a", "b"])),
)


@given(st.lists(answers, max_size=6))
def test_any_run_of_answers_keeps_a_conversation_that_can_be_sent_and_stored(rounds):
    state = AGENT.begin(0.0)
    for serial, one in enumerate(rounds):
        turn = AGENT.answered(state, one, serial=serial)
        state = AGENT.replied(turn.state, [Reply(call=c, text="ok") for c in turn.calls])
        assert json.loads(json.dumps(state)) == state
    assert state["rounds"] == state["tool_calls"] == len(rounds)
    request = AGENT.request(flow(), state)
    model_kind_named("chat").validate(json.loads(json.dumps(request)))
