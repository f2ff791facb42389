"""Executor kind `local-model`: an OpenAI-compatible server that we run ourselves.

Ollama, vLLM, llama.cpp and our own demo server speak this protocol. One instance serves all worker
threads of a process over one pool of kept connections. It never retries: the scheduler does, where
each try is seen, counted and paid for.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event

import httpx

from scheduling.executors.completion import Completion, bounded, parsed, refusal
from scheduling.executors.contract import (
    Cancel,
    Capabilities,
    Capacity,
    ErrorClass,
    ExecutorSpec,
    Health,
    OnText,
    Outcome,
    Traits,
    Work,
)
from scheduling.executors.ending import ending_of, outcome_of
from scheduling.executors.endpoint import BadEndpoint, Endpoint
from scheduling.executors.faults import ServerFault
from scheduling.executors.running import Running
from scheduling.executors.watch import Limits, Watch
from scheduling.executors.watched_http import open_client, watched
from scheduling.kinds.registry import model_kind_named, served_on

KIND = "local-model"
PROBE_LIMIT_S = 3.0
SLOW_PROBE_S = 1.0
MAX_LIST_BYTES = 4_000_000

_STILL_ALIVE = frozenset({ErrorClass.RATE_LIMITED, ErrorClass.INVALID_REQUEST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one look at a server found: its models, and a sentence where something is wrong."""

    health: Health
    models: frozenset[str] = frozenset()
    message: str = ""


class LocalModel:
    """Runs chat completions on one server, or on the server that a piece of work names."""

    kind = KIND
    traits = Traits(idempotent=True, checkpoints=False, cancellable=True)

    def __init__(
        self,
        spec: ExecutorSpec,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._now = now
        self._running = Running()
        self._client = open_client()

    def capabilities(self) -> Capabilities:
        """Every kind of job that is a chat completion, on the models that the spec names."""
        return Capabilities(job_kinds=served_on(KIND), models=self._spec.models)

    def capacity(self) -> Capacity:
        """The configured slots, and what runs in this process."""
        return Capacity(limit=self._spec.slots, in_use=len(self._running.ids()))

    def health(self) -> Health:
        """Ask the server; takes up to about twice `PROBE_LIMIT_S`."""
        return self.probe().health

    def probe(self) -> Probe:
        """List the server's models. Never raises for a fault of the server.

        A refusal of the list itself (no such route, too many requests) shows a living server, so it
        is degraded; a refused key is down, for no work would pass.
        """
        watch = Watch(Limits(whole_s=PROBE_LIMIT_S), Event(), self._clock)
        endpoint = Endpoint(self._spec.endpoint or "", self._spec.api_key)
        try:
            with watched(watch):
                models = self._list_models(endpoint)
        except Exception as error:  # noqa: BLE001 (a probe answers; ending_of logs faults of ours)
            ending = ending_of(error, endpoint)
            refused = ending.error_class in _STILL_ALIVE
            alive = refused and not isinstance(error, BadEndpoint)
            return Probe(health=Health.DEGRADED if alive else Health.DOWN, message=ending.message)
        missing = sorted(self._spec.models - models)
        slow = watch.elapsed_s() > SLOW_PROBE_S
        return Probe(
            health=Health.DEGRADED if slow or missing else Health.OK,
            models=models,
            message=f"the server does not list {', '.join(missing)}" if missing else "",
        )

    def dispatch(
        self, work: Work, cancel_event: Event, *, on_text: OnText | None = None
    ) -> Outcome:
        """See `Executor.dispatch`."""
        with self._running.track(work.attempt_id, cancel_event):
            limits = Limits(
                whole_s=work.max_runtime_s,
                first_token_s=work.first_token_timeout_s,
                idle_s=work.idle_timeout_s,
            )
            watch = Watch(limits, cancel_event, self._clock)
            return self._run(work, watch, Completion(work, watch, on_text))

    def cancel(self, attempt_id: str) -> Cancel:
        """See `Executor.cancel`; a call that waits for the server ends within some 0.1 s."""
        return self._running.cancel(attempt_id)

    def running(self) -> frozenset[str]:
        """See `Executor.running`."""
        return self._running.ids()

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()

    def _run(self, work: Work, watch: Watch, call: Completion) -> Outcome:
        endpoint = self._endpoint_of(work)
        ending, result = None, None
        try:
            watch.check()
            kind = model_kind_named(work.kind)
            request = kind.request(work.payload, work.model)
            with watched(watch):
                call.run(self._client, endpoint, request, self._now)
            result = kind.result(call.answer.whole())
        except Exception as error:  # noqa: BLE001 (each becomes an outcome; ending_of logs ours)
            ending = ending_of(error, endpoint, heard=call.was_heard)
        return outcome_of(call, ending, result, watch.elapsed_s())

    def _endpoint_of(self, work: Work) -> Endpoint:
        """The work's own server and key, or ours; a key never goes to another server."""
        if work.endpoint is not None:
            return Endpoint(work.endpoint, work.api_key)
        return Endpoint(self._spec.endpoint or "", self._spec.api_key)

    def _list_models(self, endpoint: Endpoint) -> frozenset[str]:
        with self._client.stream(
            "GET",
            endpoint.url("models"),
            headers=endpoint.headers(),
            timeout=httpx.Timeout(PROBE_LIMIT_S),
        ) as response:
            if response.status_code != httpx.codes.OK:
                raise refusal(response)
            body = parsed(bounded(response, MAX_LIST_BYTES))
        listed = body.get("data") if isinstance(body, dict) else None
        if not isinstance(listed, list):
            raise ServerFault(ErrorClass.INVALID_RESPONSE, "the list of models is no list")
        return frozenset(str(model.get("id")) for model in listed if isinstance(model, dict))
