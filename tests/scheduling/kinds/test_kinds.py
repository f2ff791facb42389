"""The job kinds: what a payload may be, what it is estimated at, what is asked and what is kept."""

import pytest

from scheduling.kinds.contract import Estimate, InvalidPayload, ModelAnswer, UnusableAnswer
from scheduling.kinds.registry import KINDS, UnknownKind, kind_named, model_kind_named
from scheduling.kinds.tokens import text_tokens

USER = {"role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {}}}


def chat(*messages, **more):
    return {"messages": list(messages) or [USER], **more}


def translate(**changes):
    return {"text": "Hello.", "source": "en", "target": "pt"} | changes


def bad_fields(kind, payload):
    with pytest.raises(InvalidPayload) as caught:
        kind_named(kind).validate(payload)
    assert all(fault.sentence for fault in caught.value.faults)
    return [fault.field for fault in caught.value.faults]


@pytest.mark.parametrize(
    "payload",
    [
        chat(),
        chat(USER, max_tokens=5, temperature=0, top_p=1, seed=-1, stop=["a"], response_format={}),
        chat(USER, tools=[TOOL], tool_choice="auto", parallel_tool_calls=False),
        chat(USER, tool_choice={"type": "function"}, stop="x", presence_penalty=-2),
        chat(USER, max_tokens=None, tools=None),
        chat({"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}),
        chat({"role": "assistant", "content": "hi", "tool_calls": None}),
        chat({"role": "tool", "tool_call_id": "c1", "content": "found"}),
        chat({"role": "user", "content": [{"type": "text", "text": "see"}]}),
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
        chat({"role": "user", "content": ""}),
    ],
)
def test_a_good_chat_is_accepted_and_can_be_estimated_and_sent(payload):
    kind = model_kind_named("chat")
    kind.validate(payload)
    assert kind.estimate(payload).input_tokens > 0
    assert len(kind.request(payload, "m").messages) == len(payload["messages"])


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({}, ["messages"]),
        ({"messages": []}, ["messages"]),
        ({"messages": "hi"}, ["messages"]),
        (chat("hi"), ["messages[0]"]),
        (chat(USER, model="m", stream=True), ["model", "stream"]),
        (chat({"role": "boss", "content": "x"}), ["messages[0].role"]),
        (chat({"role": ["user"], "content": "x"}), ["messages[0].role"]),
        (chat(USER, {"role": "user", "content": None}), ["messages[1].content"]),
        (chat({"role": "user", "content": [{"type": "video"}]}), ["messages[0].content[0]"]),
        (chat({"role": "user", "content": [{"type": ["text"]}]}), ["messages[0].content[0]"]),
        (chat({"role": "user", "content": "x", "mood": 1}), ["messages[0].mood"]),
        (
            chat({"role": "assistant", "content": "x", "tool_calls": [1]}),
            ["messages[0].tool_calls"],
        ),
        (chat({"role": "tool", "content": "x"}), ["messages[0].tool_call_id"]),
        (chat(USER, max_tokens=0), ["max_tokens"]),
        (chat(USER, max_tokens=True), ["max_tokens"]),
        (chat(USER, max_tokens=1.5), ["max_tokens"]),
        (chat(USER, temperature=float("nan")), ["temperature"]),
        (chat(USER, temperature=10**400), ["temperature"]),
        (chat(USER, temperature=3), ["temperature"]),
        (chat(USER, top_p="1"), ["top_p"]),
        (chat(USER, stop=[]), ["stop"]),
        (chat(USER, tools=[{"type": "function"}]), ["tools"]),
        (chat(USER, tools=["x"]), ["tools"]),
        (chat(USER, tool_choice="maybe"), ["tool_choice"]),
        (chat(USER, parallel_tool_calls=1), ["parallel_tool_calls"]),
        (chat(USER, response_format="json"), ["response_format"]),
        (chat({"role": "user", "content": "a\x00"}), ["messages[0].content"]),
        (chat({"role": "user", "content": "\ud800"}), ["messages[0].content"]),
        ({"mess": 1, "temperature": "x"}, ["mess", "messages", "temperature"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_chat_is_refused_with_every_bad_field(payload, fields):
    assert sorted(bad_fields("chat", payload)) == sorted(fields)


def test_the_output_estimate_is_the_smaller_of_the_limits_that_are_given():
    kind = kind_named("chat")
    assert kind.estimate(chat()).output_tokens == 1_000
    assert kind.estimate(chat(USER, max_tokens=7)).output_tokens == 7
    assert kind.estimate(chat(USER, max_tokens=7, max_completion_tokens=5)).output_tokens == 5


def test_tools_and_pictures_count_as_input():
    kind = kind_named("chat")
    plain = kind.estimate(chat()).input_tokens
    picture = {"type": "image_url", "image_url": {"url": "x"}}
    assert kind.estimate(chat(USER, tools=[TOOL])).input_tokens > plain
    assert kind.estimate(chat({"role": "user", "content": [picture]})).input_tokens >= 1_000
    assert kind.estimate(chat({**USER, "tool_calls": [CALL]})).input_tokens > plain


def test_the_request_leaves_out_nulls_and_uses_the_name_that_all_servers_know():
    message = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}
    request = model_kind_named("chat").request(
        chat(message, max_completion_tokens=5, temperature=None, seed=3), "m"
    )
    assert request.params == {"seed": 3, "max_tokens": 5}
    assert request.messages == ({"role": "assistant", "content": None, "tool_calls": [CALL]},)


def test_a_chat_result_keeps_text_calls_and_reason():
    answer = ModelAnswer(text="", tool_calls=(CALL,), finish_reason="tool_calls", model="m")
    assert model_kind_named("chat").result(answer) == {
        "text": "",
        "tool_calls": [CALL],
        "finish_reason": "tool_calls",
        "model": "m",
    }


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({}, ["source", "target", "text"]),
        (translate(text=""), ["text"]),
        (translate(text=" \n"), ["text"]),
        (translate(text="x" * 20_001), ["text"]),
        (translate(text=7), ["text"]),
        (translate(target="xx"), ["target"]),
        (translate(source=None), ["source"]),
        (translate(source="pt", target="en"), ["target"]),
        (translate(target="en"), ["target"]),
        (translate(text="a\x00b"), ["text"]),
        (translate(voice="deep"), ["voice"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_translation_is_refused_with_every_bad_field(payload, fields):
    assert sorted(bad_fields("translate", payload)) == fields


def test_a_translation_is_asked_with_an_instruction_and_the_text():
    kind = model_kind_named("translate")
    kind.validate(translate(text="x" * 20_000))
    request = kind.request(translate(), "m")
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert "English to Portuguese" in request.messages[0]["content"]
    assert request.messages[1]["content"] == "Hello."
    assert kind.estimate(translate(text="x" * 400)) == Estimate(input_tokens=135, output_tokens=150)


def test_a_translation_into_nothing_is_unusable():
    kind = model_kind_named("translate")
    assert kind.result(ModelAnswer(text="Olá."))["text"] == "Olá."
    with pytest.raises(UnusableAnswer):
        kind.result(ModelAnswer(text=" "))


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({}, ["seconds"]),
        ({"seconds": -1}, ["seconds"]),
        ({"seconds": 86_401}, ["seconds"]),
        ({"seconds": True}, ["seconds"]),
        ({"seconds": float("inf")}, ["seconds"]),
        ({"seconds": 1, "fail": "boom"}, ["fail"]),
        ({"seconds": 1, "tokens": 5}, ["tokens"]),
        ({"seconds": 1, "tokens": {"input": -1, "more": 1}}, ["tokens.more", "tokens.input"]),
        ({"seconds": 1, "speed": 2}, ["speed"]),
    ],
)
def test_a_bad_simulation_is_refused_with_every_bad_field(payload, fields):
    assert bad_fields("simulated", payload) == fields


def test_a_simulation_is_estimated_at_what_it_names():
    payload = {"seconds": 2, "tokens": {"input": 3, "output": 4}, "fail": None}
    kind_named("simulated").validate(payload)
    assert kind_named("simulated").estimate(payload) == Estimate(
        input_tokens=3, output_tokens=4, seconds=2.0
    )


def test_the_registry_knows_each_kind_by_its_name():
    assert {name: kind.name for name, kind in KINDS.items()} == {name: name for name in KINDS}
    assert {kind.permission for kind in KINDS.values()} <= {"chat:use", "flows:run", "tasks:run"}
    assert kind_named("simulated").runs_on == {"simulated"}


def test_an_unknown_kind_is_told_with_the_known_ones():
    with pytest.raises(UnknownKind, match="chat, flow, simulated, translate"):
        kind_named("poetry")


def test_a_kind_without_a_completion_is_no_model_kind():
    with pytest.raises(UnknownKind, match="not chat completions"):
        model_kind_named("simulated")


def test_refusals_read_as_sentences():
    with pytest.raises(InvalidPayload, match=r"^max_tokens: must be a whole number from 1 to"):
        kind_named("chat").validate(chat(USER, max_tokens="many"))


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("漢字", 2)]
)
def test_tokens_are_estimated_by_bytes(text, tokens):
    assert text_tokens(text) == tokens


@pytest.mark.parametrize("value", ["a\0b", "\ud800", float("inf"), float("nan")])
def test_what_no_database_can_hold_is_refused_at_the_door_with_its_path(value):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"x": [1, value]}}}
    (path,) = bad_fields("chat", chat(tools=[tool]))
    assert path == "tools[0].function.parameters.x[1]"
