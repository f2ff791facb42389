"""A wrong scenario is refused with all of its faults, each by file, line and key path."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.errors import InvalidScenario
from scheduling.simulator.reading import read

HEAD = "pools: [{name: p, budget: 3}]\n"


def test_all_faults_are_told_at_once_with_their_lines(folder):
    lines = [fault.split(": ")[0:2] for fault in folder.faults(_MANY)]
    assert lines == [
        ["s.yaml:2", "policy.backfil"],
        ["s.yaml:4", "pools.0.budget"],
        ["s.yaml:6", "tenants.0.weight"],
        ["s.yaml:8", "jobs.0.at"],
        ["s.yaml:11", "jobs.1.duration"],
    ]


def test_an_unknown_key_is_named_beside_those_that_are_known(folder):
    assert folder.faults(HEAD + "untill: 4\n") == [
        "s.yaml:2: untill: Is no known setting; known here: compare, events, executors, jobs, "
        "name, policy, pools, prices, seed, tenants, trace, until, workflows."
    ]


_MANY = """policy:
  backfil: easy
pools:
  - {name: p, budget: true}
tenants:
  - {name: A, weight: -1}
jobs:
  - {id: a, tenant: A, at: .nan}
  - id: b
    tenant: A
    duration: "12"
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("jobs: [{id: a}]", "s.yaml:2: jobs.0.tenant: Is missing; every entry has it."),
        ("jobs: [{id: a, tenant: t, class: vip}]", "jobs.0.class: vip is no class"),
        ("jobs: [{id: a, tenant: t, pool: q}]", "jobs.0.pool: q is no pool"),
        ("jobs: [{id: a, tenant: t, after: [z]}]", "jobs.0.after: z is no job"),
        ("jobs: [{id: a, tenant: t}, {id: a, tenant: t}]", "jobs.1.id: a is the id of another job"),
        ("jobs: [{id: a, tenant: t, after: [a]}]", "Waits for itself: a -> a."),
        ("jobs: [{id: a, tenant: t, every: 1}]", "jobs.0.every: Stands without repeat."),
        ("jobs: [{repeat: 2, id: a, tenant: t}]", "jobs.0.id: Must hold {n} once"),
        ("jobs: [{id: a, tenant: t, at: 1, at: 2}]", "The key at stands twice; first on line 2."),
        ("executors: [{name: e, pool: q}]", "executors.0.pool: q is no pool"),
        ("tenants: [{name: a}, {name: a}]", "tenants.1.name: a stands twice."),
        ("workflows: [{tenant: t, name: w}]", "workflows.0.tenant: t is no tenant"),
        ("events: [{at: 1, do: tenant_hold, tenant: t}]", "events.0.tenant: t is no tenant"),
        ("events: [{at: 1, do: job_cancel, job: t}]", "events.0.job: t is no job"),
        ("events: [{at: 1, do: executor_up, executor: t}]", "events.0.executor: t is no executor"),
        ("events: [{at: 1, do: tenant_hold}]", "events.0.tenant: Is missing; tenant_hold has it."),
        ("events: [{at: 1, do: explode}]", "events.0.do: Must be one of tenant_hold"),
        ("events: [{at: 1, do: worker_lost}]", "worker_lost names an executor or a job."),
        (
            "events: [{at: 1, do: pool_budget, pool: p, budget: 1, weight: 2}]",
            "events.0.weight: pool_budget has no such key.",
        ),
        ("prices: {gpt-4.1: {inputs: 3}}", "s.yaml:2: prices.gpt-4.1.inputs: Is no known setting"),
        ("prices: {m: {input: .inf}}", "prices.m.input: Must be an amount"),
        ("policy: {preempt: {}, preemption: {}}", "policy.preempt: Stands beside preemption"),
        ("policy: {classes: [{name: a, ages_to: b}]}", "policy.classes.0.ages_to: Must name"),
        ("policy: {fallbacks: [{model: m, to: [m]}]}", "policy.fallbacks.0.to.0"),
        ("policy: [1]", "policy: Must be an object of settings."),
        ("compare: best", "compare: Must be one of naive."),
        ("trace: {file: a.txt}", "trace.format: Is missing; it is swf or csv."),
        ("trace: {file: a.csv}", "trace.duration: Is missing;"),
        ("trace: {file: none.swf}", "none.swf: Cannot be read: No such file or directory."),
        (
            "trace: {file: a.swf, tenant: client}",
            "trace.tenant: A file of format swf has no client",
        ),
        ("seed: 1.5", "seed: Must be a whole number"),
        ("a: &x [*x]", "*x names no anchor that ends before it."),
        ("a: !!python/object:os.system ls", "The tag tag:yaml.org,2002:python/object:os.system"),
        ("a: [1", "Is no valid YAML:"),
        ("---\nb: 1", "Must hold one document; a second begins here."),
        ("a: \x01", "s.yaml:2: Holds a control character."),
    ],
)
def test_a_fault_is_named_with_its_place(folder, text, fault):
    faults = folder.faults(HEAD + text + "\n")
    assert any(fault in one for one in faults), faults
    assert all(one.startswith(("s.yaml:", "none.swf:")) for one in faults)


@pytest.mark.parametrize("known", ["workflows", "jobs"])
def test_a_lever_on_a_workflow_that_nothing_has_is_refused(folder, known):
    parts = {
        "workflows": "workflows: [{tenant: A, name: coding}, {tenant: B, name: codng}]",
        "jobs": "jobs: [{id: a, tenant: A, workflow: coding}, {id: b, tenant: B, workflow: codng}]",
    }
    lever = "events: [{{at: 1, do: workflow_cost, tenant: A, workflow: {}, cost: 2}}]\n"
    text = HEAD + "tenants: [{name: A}, {name: B}]\n" + parts[known] + "\n"
    assert folder.faults(text + lever.format("codng")) == [
        "s.yaml:4: events.0.workflow: codng is no workflow of A in this scenario."
    ]
    assert folder.read(text + lever.format("coding")).levers[0].workflow == "coding"


def test_an_unknown_tenants_workflow_is_one_fault(folder):
    lever = "events: [{at: 1, do: workflow_cost, tenant: C, workflow: w, cost: 2}]\n"
    assert folder.faults(HEAD + lever) == [
        "s.yaml:2: events.0.tenant: C is no tenant of this scenario."
    ]


def test_a_circle_through_a_generator_is_found(folder):
    faults = folder.faults(
        HEAD + 'jobs: [{id: a, tenant: t, after: [g3]}, {repeat: 5, id: "g{n}", tenant: t,'
        " after: [b]}, {id: b, tenant: t, after: [a]}]\n"
    )
    assert faults == ["s.yaml:2: jobs.0.after: Waits for itself: a -> g3 -> b -> a."]


def test_a_long_chain_of_dependencies_is_no_circle(folder):
    jobs = "\n".join(f"  - {{id: j{n}, tenant: t, after: [j{n + 1}]}}" for n in range(3000))
    scenario = folder.read(f"jobs:\n{jobs}\n  - {{id: j3000, tenant: t}}\n")
    assert scenario.job_count == 3001


def test_a_pool_must_be_named_and_its_reserve_fit(folder):
    assert "pools: Is missing" in folder.faults("name: x\n")[0]
    assert folder.faults("pools: [{name: p, budget: 1, reserve: 2}]\n") == [
        "s.yaml:1: pools.0.reserve: Must not be above the pool's budget."
    ]


def test_a_bomb_of_aliases_is_refused_without_being_blown_up(folder):
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    for depth in range(1, 30):
        lines.append(f"a{depth}: &a{depth} [{','.join([f'*a{depth - 1}'] * 10)}]")
    assert "Holds more than 5,000,000 values" in folder.faults("\n".join(lines))[0]


def test_what_is_nested_too_deep_or_no_text_is_refused(folder):
    assert "nested deeper" in folder.faults("a: " + "[" * 60)[0]
    assert "Is no valid YAML" in folder.faults("[" * 100_000)[0]
    path = folder.path / "b.yaml"
    path.write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(InvalidScenario, match=r"b.yaml:2: Is no text in UTF-8"):
        read(path)


def test_a_fault_in_a_policy_file_names_that_file(folder):
    path = folder.write("policy:\n  share_by: wealth\n", "mine.yaml")
    faults = folder.faults(HEAD + "jobs: 1\n", policy=path)
    assert [fault.split(" Must")[0] for fault in faults] == [
        "s.yaml:2: jobs:",
        "mine.yaml:2: policy.share_by:",
    ]


def test_a_fault_in_a_policy_alone_is_named_by_its_own_key_and_line(folder):
    path = folder.write("share_by: turns\ndefault_class: nope\n", "mine.yaml")
    (fault,) = folder.faults(HEAD, policy=path)
    assert fault.startswith("mine.yaml:2: default_class: Must be the name of a class")


def test_a_bad_escape_of_json_is_a_fault_of_its_line(folder):
    path = folder.path / "s.json"
    path.write_text('{"name": "\\ud8zz\\udczz"}')
    with pytest.raises(InvalidScenario, match=r"s.json:1: "):
        read(path)


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "name", "tenant", "at", "do", "after", "repeat", "file", "to"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = ("policy", "pools", "executors", "prices", "tenants", "workflows", "jobs", "trace", "events")


@given(data=st.dictionaries(st.sampled_from(KEYS), PARTS, max_size=4))
def test_no_data_whatever_ends_in_anything_but_named_faults(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "s.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    told = ["read"]
    try:
        read(path)
    except InvalidScenario as invalid:
        told = [str(error) for error in invalid.errors]
    assert told


@given(text=st.text(alphabet="a:-[]{}&*!|>'\"#\n ,1?%@\t", max_size=40))
def test_no_text_whatever_ends_in_anything_but_named_faults(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidScenario, match=r"s\.yaml"):
        read(path)
