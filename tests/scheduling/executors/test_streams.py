"""Answers that come as streams: totals, missing counts, cuts, comments, tool calls (C19 to C29)."""

import json
import threading

import pytest

from scheduling.executors.contract import ErrorClass, Source, Status
from tests.scheduling.executors.conftest import make_work
from tests.scheduling.executors.scripted import (
    OK_STREAM,
    STREAM_HEAD,
    body,
    counts,
    delta,
    hang,
    head,
    reset,
    sse,
)


def test_a_running_total_in_every_chunk_is_not_added_up(server, run):
    server.answer(
        STREAM_HEAD,
        sse(
            delta("", **counts(16, 0)),
            delta("a", **counts(16, 1)),
            delta("b", **counts(16, 2)),
            delta("c", "stop", **counts(16, 3)),
            {"choices": [], **counts(16, 3, total_tokens=19)},
            "[DONE]",
        ),
    )
    outcome = run()
    assert outcome.status is Status.COMPLETE
    assert (outcome.usage.input_total, outcome.usage.output_total) == (16, 3)
    assert outcome.usage.input_source is outcome.usage.output_source is Source.REPORTED
    assert not outcome.usage.partial


def test_a_cut_stream_keeps_its_last_total_and_is_partial(server, run):
    chunks = (delta("", **counts(16, 0)), delta("a", **counts(16, 1)), delta("b", **counts(16, 2)))
    server.answer(STREAM_HEAD, sse(*chunks))
    outcome = run()
    assert outcome.status is Status.INTERRUPTED
    assert (outcome.usage.input_total, outcome.usage.output_total) == (16, 2)
    assert outcome.usage.partial
    assert outcome.partial_text == "ab"


def test_without_any_usage_both_parts_are_estimated(server, run):
    server.answer(STREAM_HEAD, sse(delta("a"), delta("b"), delta(None, "stop"), "[DONE]"))
    outcome = run()
    assert outcome.status is Status.COMPLETE
    assert outcome.usage.input_total == 40
    assert outcome.usage.output_total > 0
    assert outcome.usage.input_source is outcome.usage.output_source is Source.ESTIMATED
    assert server.talks[0].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("prompt", [{}, {"prompt_eval_count": None}, {"prompt_eval_count": 0}])
def test_ollama_without_a_prompt_count_is_estimated_in_that_part_only(server, run, prompt):
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": "yes"}, "done": False},
        {"model": "m", "done": True, "eval_count": 12} | prompt,
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    server.answer(head(Content_Type="application/x-ndjson"), text.encode())
    outcome = run()
    assert outcome.status is Status.COMPLETE
    assert outcome.result["text"] == "yes"
    assert (outcome.usage.input_total, outcome.usage.output_total) == (40, 12)
    assert outcome.usage.input_source is Source.ESTIMATED
    assert outcome.usage.output_source is Source.REPORTED


def test_a_stream_that_just_ends_is_interrupted_and_its_text_kept(server, run):
    server.answer(STREAM_HEAD, sse(delta("The answer"), delta(" is")))
    outcome = run()
    assert outcome.status is Status.INTERRUPTED
    assert outcome.error_class is ErrorClass.INTERRUPTED
    assert outcome.retryable
    assert outcome.result is None
    assert outcome.partial_text == "The answer is"
    assert outcome.usage.input_source is Source.ESTIMATED


def test_a_read_error_after_one_delta_keeps_the_delta(server, executor):
    def until_read(talk):
        while "partial" not in seen:
            talk.server.closing.wait(0.01)

    seen: list[str] = []
    server.answer(STREAM_HEAD, sse(delta("partial")), until_read, reset)
    outcome = executor.dispatch(make_work(), threading.Event(), on_text=seen.append)
    assert outcome.status is Status.INTERRUPTED
    assert outcome.partial_text == "partial"
    assert outcome.usage.output_total > 0


def test_a_stream_of_zero_bytes_is_interrupted_with_no_output(server, run):
    server.answer(STREAM_HEAD)
    outcome = run()
    assert outcome.status is Status.INTERRUPTED
    assert (outcome.usage.input_total, outcome.usage.output_total) == (40, 0)
    assert outcome.usage.output_source is Source.ESTIMATED


def test_a_finish_reason_before_the_end_makes_the_answer_whole(server, run):
    server.answer(STREAM_HEAD, sse(delta("all", "stop")))
    assert run().status is Status.COMPLETE


def test_a_last_event_without_its_empty_line_counts(server, run):
    server.answer(STREAM_HEAD, sse(delta("all")), b"data: [DONE]")
    assert run().result["text"] == "all"


def test_a_server_that_never_hangs_up_after_done_holds_nobody(server, run):
    server.answer(*OK_STREAM, hang)
    outcome = run()
    assert outcome.status is Status.COMPLETE
    assert outcome.usage.worker_seconds < 3


def test_comments_and_null_content_are_passed_over(server, run):
    server.answer(
        STREAM_HEAD,
        b":\n\n:\n\n"
        b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n'
        b": keepalive\n\n"
        b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n",
    )
    outcome = run()
    assert outcome.status is Status.COMPLETE
    assert outcome.result["text"] == "ok"


CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "lookup", "arguments": '{"q":"x"}'},
}


def test_null_beside_tool_calls_fails_nothing_and_the_history_can_be_replayed(server, run):
    first = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    second = {"role": "assistant", "content": "hi", "tool_calls": None}
    server.answer(body({"choices": [{"message": first, "finish_reason": "tool_calls"}]}))
    server.answer(body({"choices": [{"message": second, "finish_reason": "stop"}]}))
    server.answer(*OK_STREAM)
    outcomes = [run(), run()]
    asked = {"role": "user", "content": "hello"}
    told = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    outcomes.append(run(payload={"messages": [asked, first, told]}))
    assert [outcome.status for outcome in outcomes] == [Status.COMPLETE] * 3
    assert [outcome.result["text"] for outcome in outcomes] == ["", "hi", "ok"]
    assert [outcome.result["tool_calls"] for outcome in outcomes] == [[CALL], [], []]
    assert all(outcome.usage.output_total > 0 for outcome in outcomes)
    assert server.talks[2].body["messages"][1] == first


def test_tool_calls_are_joined_from_their_pieces(server, run):
    def piece(index, **function):
        call = {"index": index, "function": function}
        return {"choices": [{"delta": {"content": None, "tool_calls": [call]}}]}

    first, second = piece(0, name="lookup", arguments=""), piece(1, name="say", arguments="{}")
    first["choices"][0]["delta"]["tool_calls"][0]["id"] = "c1"
    second["choices"][0]["delta"]["tool_calls"][0]["id"] = "c2"
    pieces = (first, piece(0, arguments='{"q":'), piece(0, arguments='"x"}'), second)
    server.answer(STREAM_HEAD, sse(*pieces, delta(None, "tool_calls"), "[DONE]"))
    outcome = run()
    names = [call["function"]["name"] for call in outcome.result["tool_calls"]]
    assert names == ["lookup", "say"]
    assert outcome.result["tool_calls"][0] == CALL
    assert outcome.usage.tool_calls == 2


def test_text_that_no_database_keeps_is_mended(server, run):
    raw = b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n'
    halves = (raw % b"a\\u0000\\ud83d", raw % b"\\ude00\\udfff")
    server.answer(STREAM_HEAD, *halves, sse("[DONE]"))
    assert run().result["text"] == "a\ufffd\U0001f600\ufffd"


def test_impossible_counts_are_estimated_and_marked(server, run):
    usage = {"prompt_tokens": -5, "completion_tokens": "many"}
    server.answer(STREAM_HEAD, sse(delta("a", "stop", usage=usage), "[DONE]"))
    outcome = run()
    assert outcome.usage.inconsistent
    assert (outcome.usage.input_total, outcome.usage.output_source) == (40, Source.ESTIMATED)


def test_parts_greater_than_their_whole_are_marked(server, run):
    details = {"prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 40}}
    server.answer(STREAM_HEAD, sse(delta("a", "stop", **counts(100, 1, **details)), "[DONE]"))
    usage = run().usage
    assert (usage.cached_read, usage.cached_write) == (80, 40)
    assert usage.inconsistent
