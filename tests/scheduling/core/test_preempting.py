"""Preemption over time: the pool's cycle with victims that stop, wait again and go on (C46)."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from scheduling.core.policy.cycle import cycle
from scheduling.core.policy.preempting import preempting
from scheduling.core.policy.settings import Policy, Preemption
from tests.scheduling.core.pools import make_executor, make_job, make_state


class Play:
    """A pool in which what is asked to stop has stopped a tick later and waits again."""

    def __init__(self, budget=8, reserve=0, most=2, **more):
        preemption = Preemption(enabled=True, min_run_s=10.0, most_times=most)
        policy = Policy(preemption=preemption, age_after=more.pop("age_after", 1800.0))
        self.state = make_state(budget, reserve, policy=policy, **more)
        self.now, self.stopping = 0.0, []
        self.jobs, self.times = {}, Counter()

    def submit(self, name, cost=1, class_name="normal", **more):
        self.jobs[name] = make_job(name, cost, class_name=class_name, submitted_at=self.now, **more)
        self.state.wait(self.jobs[name])

    def tick(self, seconds=1.0):
        """Let what was asked stop, place, and ask anew; return who was asked."""
        self.now += seconds
        for name in self.stopping:
            self.state.end(name)
            self.state.wait(self.jobs[name])
        self.stopping = []
        cycle(self.state, self.now)
        yielding = {name: self.times[name] for name in self.state.live}
        for one in preempting(self.state, self.now, yielding=yielding, stopping=self.stopping):
            self.stopping += [live.job_id for live in one.victims]
        self.times.update(self.stopping)
        return self.stopping

    def runs(self):
        return sorted(self.state.live)


def four_flows():
    play = Play()
    for index in range(4):
        play.submit(f"p{index}", 2, tenant="p", expected_s=1e6)
    play.tick()
    play.tick(60.0)
    assert play.runs() == ["p0", "p1", "p2", "p3"]
    return play


def test_a_higher_class_gets_the_room_of_exactly_two_that_are_preempted_once_each():
    play = four_flows()
    submitted = {name: job.submitted_at for name, job in play.jobs.items()}
    play.submit("q", 4, "critical", tenant="q")
    for _ in range(100):
        play.tick()
    assert "q" in play.runs()
    assert sorted(play.times.values()) == [1, 1]
    waiting = [spot.job for spot in play.state.order.walk_all()]
    assert sorted(job.id for job in waiting) == sorted(play.times)
    assert all(job.submitted_at == submitted[job.id] for job in waiting)


def test_an_equal_class_preempts_nothing_and_waits():
    play = four_flows()
    play.submit("q", 4, "normal", tenant="q")
    for _ in range(100):
        assert play.tick() == []
    assert play.runs() == ["p0", "p1", "p2", "p3"]


def test_what_is_stopping_already_counts_as_coming_free():
    play = four_flows()
    play.submit("q", 4, "critical", tenant="q")
    yielding = dict.fromkeys(play.state.live, 0)

    def due(*stopping):
        found = preempting(play.state, play.now, yielding=yielding, stopping=stopping)
        return [len(one.victims) for one in found]

    assert (due(), due("p0"), due("p0", "p1")) == ([2], [1], [])


def test_two_heads_do_not_count_on_the_same_room():
    play = four_flows()
    play.submit("q1", 4, "critical", tenant="q")
    play.submit("q2", 4, "critical", tenant="q")
    assert len(play.tick()) == 4
    play.tick()
    assert play.runs() == ["q1", "q2"]


def test_a_head_that_a_limit_would_keep_from_starting_preempts_nobody():
    play = Play(4, caps={("tenant", "q"): 1})
    play.submit("p1", 2)
    play.submit("p2", 2)
    play.tick()
    play.tick(60.0)
    for name in ("q1", "q2"):
        play.submit(name, 2, "critical", tenant="q", limits=(("tenant", "q"),))
    assert len(play.tick()) == 1
    assert play.tick() == []


def test_a_head_behind_another_that_cannot_be_helped_preempts_nobody():
    play = Play(4)
    play.submit("same", 3, "critical")
    play.submit("low", 1, "batch")
    play.tick()
    play.tick(60.0)
    play.submit("big", 3, "critical")
    play.submit("small", 1, "critical")
    assert play.tick() == []


def test_a_slot_is_freed_where_the_head_can_run_and_nowhere_else():
    executors = [make_executor("x", 1, ["m"]), make_executor("y", 1, ["n"])]
    play = Play(8, executors=executors)
    play.submit("here", model="m")
    play.submit("there", class_name="batch", model="n")
    play.tick()
    play.tick(60.0)
    play.submit("fire", class_name="incident", model="m")
    assert play.tick() == ["here"]
    play.tick()
    assert play.runs() == ["fire", "there"]


def test_a_policy_that_is_off_or_a_head_without_the_right_preempts_nobody():
    play = four_flows()
    play.submit("q", 4, "critical")
    play.state.policy = Policy()
    assert play.tick() == []
    younger = Play()
    younger.submit("p", 8)
    younger.tick()
    younger.submit("q", 4, "critical")
    younger.tick(9.0)
    assert younger.stopping == []
    assert younger.tick(1.0) == ["p"]


def test_waiting_long_gives_a_better_place_but_no_right_to_stop_others():
    play = Play(2, age_after=100.0)
    play.submit("p", 2, tenant="p")
    play.tick()
    play.submit("aged", 2, tenant="q")
    play.tick(150.0)
    assert play.state.order.stands_in("aged") == "critical"
    assert play.tick() == []


class Preemptions(RuleBasedStateMachine):
    """Whatever comes and goes, preemption comes to rest, and wrongs nobody."""

    most = 2

    def __init__(self):
        super().__init__()
        executors = [make_executor("x", 3, ["m"]), make_executor("y", 4, ["m", "n"])]
        self.play = Play(
            8, 2, self.most, executors=executors, caps={("user", "u"): 2}, age_after=40.0
        )
        self.made = 0

    @rule(
        cost=st.integers(1, 5),
        tenant=st.sampled_from("ab"),
        class_name=st.sampled_from(["incident", "critical", "normal", "batch"]),
        model=st.sampled_from(["", "m", "n"]),
        limited=st.booleans(),
    )
    def submit(self, cost, tenant, class_name, model, limited):
        self.made += 1
        limits = (("user", "u"),) if limited else ()
        self.play.submit(
            f"j{self.made}", cost, class_name, tenant=tenant, model=model, limits=limits
        )

    @rule(seconds=st.sampled_from([0.5, 12.0, 60.0]))
    def tick(self, seconds):
        self._tick(seconds)

    def _tick(self, seconds):
        play = self.play
        asked = play.tick(seconds)
        assert len(asked) == len(set(asked))
        assert all(times <= self.most for times in play.times.values())
        ranks = {rule.name: place for place, rule in enumerate(play.state.policy.classes)}
        waiting = [job.class_name for job, _ in play.state.order.startable()]
        highest = min((ranks[name] for name in waiting), default=99)
        for name in asked:
            live = play.state.live[name]
            assert ranks[live.class_name] > highest
            assert play.now - live.started_at >= 10.0

    @precondition(lambda self: self.play.state.live)
    @rule(data=st.data())
    def finish(self, data):
        name = data.draw(st.sampled_from(sorted(self.play.state.live)))
        self.play.state.end(name)
        self.play.stopping = [one for one in self.play.stopping if one != name]

    @rule()
    def with_nothing_new_preemption_comes_to_rest(self):
        for _ in range(60):
            self._tick(1.0)
        for _ in range(40):
            assert self.play.tick() == []


class Unbounded(Preemptions):
    """The same without a bound on the times: that it ends is the potential's doing."""

    most = 10_000


TestPreemptions = Preemptions.TestCase
TestUnbounded = Unbounded.TestCase
TestUnbounded.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestPreemptions.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
