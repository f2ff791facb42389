import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.states import (
    ENDED_JOBS,
    JOB_MOVES,
    LIVE_ATTEMPTS,
    WAITING_JOBS,
    AttemptState,
    Condition,
    IllegalMove,
    JobEvent,
    JobState,
    WorkOutcome,
    attempt_move,
    job_move,
    job_sources,
    meets,
)


def test_a_job_goes_from_queued_by_running_to_done():
    assert job_move(JobState.QUEUED, JobEvent.PLACE) is JobState.RUNNING
    assert job_move(JobState.RUNNING, JobEvent.FINISH) is JobState.DONE


def test_a_step_that_is_done_stands_in_the_order_again():
    assert job_move(JobState.RUNNING, JobEvent.STEP) is JobState.QUEUED


def test_a_step_that_nothing_pays_for_goes_back_to_admission():
    deferred = job_move(JobState.RUNNING, JobEvent.GIVE_BACK)
    assert job_move(deferred, JobEvent.READMIT) is JobState.QUEUED


def test_a_flow_job_waits_between_its_steps_and_comes_back():
    waiting = job_move(JobState.RUNNING, JobEvent.WAIT)
    assert job_move(waiting, JobEvent.WAKE) is JobState.QUEUED


def test_a_move_that_is_not_in_the_table_names_state_and_event():
    with pytest.raises(IllegalMove, match="finish is not possible in state queued") as caught:
        job_move(JobState.QUEUED, JobEvent.FINISH)
    assert (caught.value.state, caught.value.event) == (JobState.QUEUED, JobEvent.FINISH)


@given(st.sampled_from(JobState), st.sampled_from(JobEvent))
def test_every_pair_moves_by_the_table_or_is_refused(state, event):
    if state in job_sources(event):
        assert job_move(state, event) is JOB_MOVES[state, event]
    else:
        with pytest.raises(IllegalMove):
            job_move(state, event)


def test_done_and_denied_jobs_never_move_again():
    for state in (JobState.DONE, JobState.DENIED):
        assert not any(state in job_sources(event) for event in JobEvent)


def test_every_ended_job_but_done_and_denied_can_be_requeued():
    assert job_sources(JobEvent.REQUEUE) - {JobState.RUNNING} == (
        ENDED_JOBS - {JobState.DONE, JobState.DENIED}
    )


def test_every_job_that_has_not_ended_can_be_canceled():
    assert job_sources(JobEvent.CANCEL) == WAITING_JOBS | {JobState.RUNNING}
    assert set(JobState) == WAITING_JOBS | ENDED_JOBS | {JobState.RUNNING}


def test_an_attempt_runs_before_it_completes():
    running = attempt_move(AttemptState.DISPATCHED, AttemptState.RUNNING)
    assert attempt_move(running, AttemptState.COMPLETE) is AttemptState.COMPLETE
    with pytest.raises(IllegalMove):
        attempt_move(AttemptState.DISPATCHED, AttemptState.COMPLETE)


@given(st.sampled_from(AttemptState), st.sampled_from(AttemptState))
def test_only_live_attempts_move_and_none_goes_back_to_dispatched(state, to):
    if state not in LIVE_ATTEMPTS or to is AttemptState.DISPATCHED:
        with pytest.raises(IllegalMove):
            attempt_move(state, to)


MET = {
    (JobState.DONE, "accepted"): {"done", "ended", "accepted"},
    (JobState.DONE, "rejected"): {"done", "ended", "rejected"},
    (JobState.DONE, "unreviewed"): {"done", "ended"},
    (JobState.FAILED, "unreviewed"): {"ended", "failed"},
    (JobState.EXPIRED, "unreviewed"): {"ended", "failed"},
    (JobState.DENIED, "unreviewed"): {"ended", "failed"},
    (JobState.CANCELED, "unreviewed"): {"ended"},
}


@pytest.mark.parametrize("end", MET, ids=" ".join)
def test_each_end_meets_the_conditions_of_the_table_and_no_other(end):
    assert {one.value for one in Condition if meets(one, *end)} == MET[end]


@given(st.sampled_from(sorted(ENDED_JOBS)), st.sampled_from(WorkOutcome))
def test_no_end_is_both_done_and_failed_or_both_accepted_and_rejected(state, outcome):
    met = {one for one in Condition if meets(one, state, outcome)}
    assert not {Condition.DONE, Condition.FAILED} <= met
    assert not {Condition.ACCEPTED, Condition.REJECTED} <= met
    assert Condition.ENDED in met
