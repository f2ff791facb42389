"""Answers that are errors, in every disguise (C23), and what is told of them."""

import threading

import pytest

from scheduling.executors import answer as answer_module
from scheduling.executors import faults
from scheduling.executors.contract import ErrorClass, ExecutorSpec, Source, Status
from scheduling.executors.local_model import LocalModel
from tests.scheduling.executors.conftest import make_work
from tests.scheduling.executors.scripted import OK_STREAM, STREAM_HEAD, body, delta, hang, head, sse

LIMIT = {"code": "rate_limit_daily", "message": "daily quota reached", "choices": None}


@pytest.mark.parametrize(
    ("answer", "error_class", "told"),
    [
        ((body(LIMIT),), ErrorClass.RATE_LIMITED, "daily quota reached"),
        ((STREAM_HEAD, sse(LIMIT)), ErrorClass.RATE_LIMITED, "daily quota reached"),
        ((body(""),), ErrorClass.INVALID_RESPONSE, "no body"),
        ((head(Content_Length="0"),), ErrorClass.INVALID_RESPONSE, "no body"),
        ((body("<html>", Content_Type="text/html"),), ErrorClass.INVALID_RESPONSE, "not JSON"),
        ((body({"error": "overloaded"}),), ErrorClass.PROVIDER_ERROR, "overloaded"),
        ((STREAM_HEAD, sse({"error": "overloaded"})), ErrorClass.PROVIDER_ERROR, "overloaded"),
        ((body({"choices": []}),), ErrorClass.INVALID_RESPONSE, "no choices"),
        ((body({"choices": None}),), ErrorClass.INVALID_RESPONSE, "no choices"),
        ((STREAM_HEAD, sse("[DONE]")), ErrorClass.INVALID_RESPONSE, "no choices"),
        ((body("[1]"),), ErrorClass.INVALID_RESPONSE, "not JSON"),
        ((body("[" * 50_000),), ErrorClass.INVALID_RESPONSE, "not JSON"),
        ((STREAM_HEAD, sse("{oops")), ErrorClass.INVALID_RESPONSE, "not JSON"),
        ((STREAM_HEAD, sse({"choices": "no"})), ErrorClass.INVALID_RESPONSE, "list"),
        ((STREAM_HEAD, sse({"choices": [{"delta": "no"}]})), ErrorClass.INVALID_RESPONSE, "delta"),
        (
            (STREAM_HEAD, b"event: error\n" + sse({"message": "broken"})),
            ErrorClass.PROVIDER_ERROR,
            "broken",
        ),
        ((body({"error": {"code": 429}}),), ErrorClass.RATE_LIMITED, ""),
        ((body({"error": {"code": "401", "message": "key"}}),), ErrorClass.UNAUTHORIZED, "key"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_good_status_with_a_bad_body_is_never_complete(server, run, answer, error_class, told):
    server.answer(*answer)
    outcome = run()
    assert outcome.status is Status.ERROR
    assert outcome.error_class is error_class
    assert told in outcome.message
    assert (outcome.usage.input_total, outcome.usage.output_total) == (0, 0)
    assert outcome.usage.input_source is Source.UNKNOWN
    assert outcome.usage.requests == 1


@pytest.mark.parametrize(
    ("status", "error_class", "retryable"),
    [
        ("400 Bad Request", ErrorClass.INVALID_REQUEST, False),
        ("404 Not Found", ErrorClass.INVALID_REQUEST, False),
        ("422 Unprocessable", ErrorClass.INVALID_REQUEST, False),
        ("401 Unauthorized", ErrorClass.UNAUTHORIZED, False),
        ("403 Forbidden", ErrorClass.UNAUTHORIZED, False),
        ("429 Too Many Requests", ErrorClass.RATE_LIMITED, True),
        ("500 Oops", ErrorClass.PROVIDER_ERROR, True),
        ("503 Busy", ErrorClass.PROVIDER_ERROR, True),
        ("504 Late", ErrorClass.TIMEOUT, True),
        ("302 Found", ErrorClass.INVALID_RESPONSE, True),
    ],
)
def test_a_status_gives_the_class_and_the_servers_words(
    server, run, status, error_class, retryable
):
    server.answer(body({"error": {"message": "the reason"}}, status, Location="/elsewhere"))
    outcome = run()
    assert outcome.error_class is error_class
    assert outcome.retryable is retryable
    assert outcome.error_class.counts_as_try
    assert outcome.message == f"the server answered {status[:3]}: the reason"
    assert len(server.talks) == 1


def test_an_error_in_the_middle_keeps_and_charges_what_came_before(server, run):
    server.answer(STREAM_HEAD, sse(delta("half"), {"error": {"message": "out of memory"}}))
    outcome = run()
    assert outcome.error_class is ErrorClass.PROVIDER_ERROR
    assert outcome.partial_text == "half"
    assert outcome.usage.output_total > 0
    assert outcome.usage.partial


def test_an_answer_without_end_is_refused_before_it_fills_the_memory(server, run, monkeypatch):
    monkeypatch.setattr(answer_module, "MAX_ANSWER_CHARS", 10)
    server.answer(STREAM_HEAD, sse(delta("x" * 8), delta("x" * 8)))
    outcome = run()
    assert outcome.error_class is ErrorClass.INVALID_RESPONSE
    assert "longer" in outcome.message


def test_an_error_body_without_end_is_read_in_part_only(server, run):
    server.answer(head("500 Oops", Content_Length="99999999"), b"x" * 200_000, hang)
    outcome = run(first_token_timeout_s=5)
    assert outcome.message == "the server answered 500"


def test_an_answer_that_the_kind_cannot_use_is_invalid_and_charged(server, run):
    server.answer(STREAM_HEAD, sse(delta(" ", "stop"), "[DONE]"))
    outcome = run(kind="translate", payload={"text": "a", "source": "en", "target": "pt"})
    assert outcome.error_class is ErrorClass.INVALID_RESPONSE
    assert outcome.usage.input_total == 40


def test_a_refused_connection_is_unreachable_and_no_try(server, run):
    outcome = run(endpoint="http://127.0.0.1:1")
    assert outcome.error_class is ErrorClass.UNREACHABLE
    assert outcome.retryable
    assert not outcome.error_class.counts_as_try
    assert "http://127.0.0.1:1" in outcome.message
    assert outcome.usage.input_total == 0


def test_an_unknown_host_is_unreachable(run):
    assert run(endpoint="http://no-such-host.invalid").error_class is ErrorClass.UNREACHABLE


@pytest.mark.parametrize(
    "endpoint",
    ["", "ftp://x", "nonsense", "http://", "http://user:pw@host", "http://h/?key=1", "http://[x"],
)
def test_a_bad_address_is_told_without_being_repeated(run, endpoint):
    outcome = run(endpoint=endpoint)
    assert outcome.error_class is ErrorClass.INVALID_REQUEST
    assert "endpoint must be" in outcome.message
    assert "pw" not in outcome.message
    assert outcome.usage.requests == 0


def test_the_key_is_sent_and_never_shown(server, run):
    key = "sk-verysecret123"
    server.answer(body({"error": {"message": f"bad key {key}, or Bearer {key}"}}, "401 No"))
    outcome = run(endpoint=server.address, api_key=key)
    assert server.talks[0].headers["authorization"] == f"Bearer {key}"
    assert "verysecret" not in outcome.message
    assert "verysecret" not in repr(make_work(api_key=key))


def test_a_key_that_no_header_carries_is_unauthorized(run, server):
    outcome = run(endpoint=server.address, api_key="k\u00e9y\n1")
    assert outcome.error_class is ErrorClass.UNAUTHORIZED
    assert "k\u00e9y" not in outcome.message


def test_the_executors_key_never_goes_to_another_server(server):
    spec = ExecutorSpec(name="x", kind="local-model", endpoint="http://127.0.0.1:1", api_key="k")
    local = LocalModel(spec)
    server.answer(*OK_STREAM)
    outcome = local.dispatch(make_work(endpoint=server.address), threading.Event())
    local.close()
    assert outcome.status is Status.COMPLETE
    assert "authorization" not in server.talks[0].headers


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/proxy"])
def test_the_endpoint_may_end_in_v1_or_not(server, run, suffix):
    server.answer(*OK_STREAM)
    assert run(endpoint=server.address + suffix).status is Status.COMPLETE
    path = "/proxy/v1" if suffix == "/proxy" else "/v1"
    assert server.talks[0].path == f"{path}/chat/completions"


def test_an_unknown_kind_is_an_invalid_request(run):
    outcome = run(kind="poetry")
    assert outcome.error_class is ErrorClass.INVALID_REQUEST
    assert "known are" in outcome.message


def test_a_fault_of_ours_is_internal_and_tells_no_content(server, run, caplog):
    outcome = run(payload={"messages": [{"role": "user", "content": "private", 3: object()}, None]})
    assert outcome.error_class is ErrorClass.INTERNAL
    assert "private" not in outcome.message + caplog.text
    assert "executor fault" in caplog.text


def test_an_undecodable_body_is_invalid(server, run):
    server.answer(body("not gzip", Content_Encoding="gzip"))
    assert run().error_class is ErrorClass.INVALID_RESPONSE


def test_not_http_at_all_is_interrupted(server, run):
    server.answer(b"SSH-2.0-OpenSSH\r\n")
    assert run().error_class is ErrorClass.INTERRUPTED


def test_messages_are_one_short_line_without_keys():
    line = faults.one_line("a\nb\x1b[31m hf_abcdefghij http://me:pw@host/ " + "x" * 900)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) <= faults.MAX_MESSAGE_CHARS
    assert "abcdefghij" not in line
    assert "pw" not in line


def test_the_environments_proxy_is_not_used(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    local = LocalModel(ExecutorSpec(name="x", kind="local-model", endpoint=server.address))
    server.answer(*OK_STREAM)
    assert local.dispatch(make_work(), threading.Event()).status is Status.COMPLETE
    local.close()
