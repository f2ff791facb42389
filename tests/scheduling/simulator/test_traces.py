"""Traces become jobs: logs in swf, tables of requests, gzip or not, and what is left out of them."""

import gzip
import tracemalloc

import pytest

from scheduling.simulator.requests import read_requests
from scheduling.simulator.traces import TraceRule


def row(number, at, run, *, alloc=-1, procs=4, time=100, status=1, user=1, group=2):
    return f"{number} {at} 5 {run} {alloc} -1 -1 {procs} {time} -1 {status} {user} {group} 1 1 1 -1 -1\n"


LOG = "; Version: 2.2\n\n" + "".join(
    (
        row(1, 0, 50),
        row(2, 10, 500, user=-1),
        row(3, 10, -1),
        row(4, 11, 20, time=-1),
        row(5, 12, 20, procs=11),
        row(6, 13, 20, procs=-1, alloc=3, user=7),
        row(7, 14, 20, procs=-1, alloc=-1),
        row(8, 15, 20, status=3),
        row(9, -1, 20),
    )
)


def swf(folder, log=LOG, rule="", name="log.swf"):
    (folder.path / name).write_text(log, encoding="utf-8")
    text = f"pools: [{{name: p, budget: 10}}]\ntrace: {{file: {name}, format: swf{rule}}}\n"
    return folder.read(text)


def shown(scenario):
    return [
        (job.id, job.tenant, job.at, job.cost, job.duration, job.expected_s)
        for job in scenario.arrivals()
    ]


def test_a_log_gives_its_jobs_by_the_archives_fields(folder):
    assert shown(swf(folder)) == [
        ("1", "1", 0, 4, 50, 100),
        ("2", "unknown", 10, 4, 100, 100),
        ("6", "7", 13, 3, 20, 100),
    ]


def test_what_is_left_out_of_a_log_is_counted(folder):
    assert swf(folder).notes == (
        "log.swf: 1 jobs left out: partial runs of a checkpointed job.",
        "log.swf: 1 jobs left out: no submit time.",
        "log.swf: 1 jobs left out: no run time.",
        "log.swf: 1 jobs left out: no processors.",
        "log.swf: 1 jobs left out: no requested time.",
        "log.swf: 1 jobs left out: more than 10 processors.",
    )


def test_run_times_stand_for_expected_ones_and_groups_or_one_name_for_users(folder):
    scenario = swf(folder, rule=", expected_s: runtime, tenant: group, cost: 2")
    assert shown(scenario)[1] == ("2", "2", 10, 2, 100, 100)
    assert {job.tenant for job in swf(folder, rule=", tenant: all").arrivals()} == {"all"}
    assert [tenant.name for tenant in swf(folder).tenants] == ["1", "unknown", "7"]


def test_a_number_as_cost_leaves_no_wide_job_out(folder):
    assert [job[0] for job in shown(swf(folder, rule=", cost: 1"))] == ["1", "2", "5", "6", "7"]


def test_a_log_without_requested_times_is_replayed_by_run_times(folder):
    log = row(1, 0, 50, time=-1) + row(2, 3, 20, time=-1)
    assert [job[5] for job in shown(swf(folder, log, ", expected_s: runtime"))] == [50, 20]
    faults = folder.faults(
        "pools: [{name: p, budget: 10}]\ntrace: {file: log.swf}\n", name="other.yaml"
    )
    assert "needs expected_s: runtime" in faults[1]


def test_a_log_out_of_order_is_put_in_order_and_says_so(folder):
    scenario = swf(folder, row(1, 9, 50) + row(2, 3, 20) + row(3, 9, 1))
    assert [job[0] for job in shown(scenario)] == ["2", "1", "3"]
    assert scenario.notes == (
        "log.swf: 1 rows arrive before the row above them; they were put in order.",
    )


def test_rows_that_cannot_be_read_are_named_by_line(folder):
    (folder.path / "log.swf").write_text("; x\n1 2 3\n" + row("x", 1, 1) + row(1, "nan", 1))
    faults = folder.faults("pools: [{name: p, budget: 10}]\ntrace: {file: log.swf}\n")
    assert faults == [
        "s.yaml:2: trace.file: log.swf cannot be replayed:",
        "log.swf:2: Has 3 fields; a job of this format has 18.",
        "log.swf:3: Field 1 must be a number, not x.",
        "log.swf:4: Field 2 must be a number, not nan.",
    ]


def test_a_job_number_on_two_lines_is_refused(folder):
    (folder.path / "log.swf").write_text(row(1, 1, 1) + row(1, 2, 1))
    faults = folder.faults("pools: [{name: p, budget: 10}]\ntrace: {file: log.swf}\n")
    assert faults[1] == "log.swf: Job number 1 stands on more than one line."


TABLE = "arrival_s,client,input_tokens,output_tokens,latency_s\n0.5,c2,256,10,\n1.25,c1,3,0,7\n"


def csv(folder, rule, table=TABLE):
    with gzip.open(folder.path / "r.csv.gz", "wt") as out:
        out.write(table)
    return folder.read(f"trace: {{file: r.csv.gz{rule}}}\n")


def test_a_table_of_requests_gives_a_job_a_row(folder):
    first, second = csv(folder, ", duration: {per_output_token: 0.5, base: 2}").arrivals()
    assert (first.id, first.tenant, first.at) == ("0", "c2", 0.5)
    assert (first.tokens_in, first.tokens_out, first.duration) == (256, 10, 7)
    assert (second.id, second.duration, second.cost, second.expected_s) == ("1", 2, 1, None)


def test_all_requests_may_take_the_same_time_and_be_expected_to(folder):
    rule = ", format: csv, tenant: all, cost: 2, expected_s: runtime, duration: {fixed: 3}"
    jobs = list(csv(folder, rule).arrivals())
    assert [(job.duration, job.expected_s, job.cost, job.tenant) for job in jobs] == [
        (3, 3, 2, "all")
    ] * 2


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("a,b\n", "r.csv.gz:1: The header has no column arrival_s, input_tokens"),
        ("", "r.csv.gz:1: The header has no column"),
        (TABLE + "x,c,1,1,\n", "r.csv.gz:4: arrival_s must be a number of seconds, 0 or more"),
        (TABLE + "-1,c,1,1,\n", "r.csv.gz:4: arrival_s"),
        (TABLE + "1,c,1.5,1,\n", "r.csv.gz:4: tokens must be whole numbers"),
        (TABLE + "1,c,1\n", "r.csv.gz:4: Has 3 cells; the header has 5."),
        (TABLE + "1,,1,1,\n", "r.csv.gz:4: client must be a name"),
        (TABLE + '1,"c,1,1,\n', "r.csv.gz:4: Is no row of comma-separated cells."),
        (TABLE + "9" * 20_000 + "\n", "r.csv.gz:4: Is longer than 10,000 characters."),
    ],
)
def test_a_wrong_table_is_refused_by_line(folder, table, fault):
    with gzip.open(folder.path / "r.csv.gz", "wt") as out:
        out.write(table)
    faults = folder.faults(
        "pools: [{name: p, budget: 1}]\ntrace: {file: r.csv.gz, duration: {fixed: 1}}\n"
    )
    assert any(one.startswith(fault) for one in faults), faults


def test_a_broken_gzip_file_is_refused(folder):
    whole = gzip.compress((TABLE + "1,c,1,1,\n" * 50).encode())
    (folder.path / "r.csv.gz").write_bytes(whole[:-9])
    faults = folder.faults(
        "pools: [{name: p, budget: 1}]\ntrace: {file: r.csv.gz, duration: {fixed: 1}}\n"
    )
    assert faults[1] == "r.csv.gz: Is a broken gzip file."


def test_an_id_of_the_trace_may_not_be_written_too(folder):
    (folder.path / "log.swf").write_text(row(5, 1, 1))
    faults = folder.faults(
        "pools: [{name: p, budget: 10}]\ntrace: {file: log.swf}\n"
        'jobs: [{repeat: 9, id: "{n}", tenant: t}]\n'
    )
    assert faults == ["s.yaml:3: jobs.0.id: 5 is the id of another job too."]


def test_events_and_dependencies_may_name_jobs_and_tenants_of_the_trace(folder):
    (folder.path / "log.swf").write_text(row(5, 1, 1))
    scenario = folder.read("""
        pools: [{name: p, budget: 10}]
        trace: {file: log.swf}
        jobs: [{id: a, tenant: t, after: ["5"]}]
        events: [{at: 3, do: job_cancel, job: 5}, {at: 3, do: tenant_hold, tenant: 1}]
    """)
    assert scenario.job_count == 2


def test_a_long_trace_is_kept_small(tmp_path):
    path = tmp_path / "long.csv"
    with path.open("w") as out:
        out.write("arrival_s,client,input_tokens,output_tokens\n")
        out.writelines(f"{n},c{n % 50},{n},{n}\n" for n in range(20_000))
    tracemalloc.start()
    trace = read_requests(TraceRule(path=path, fixed_s=1.0))
    count = sum(1 for _ in trace.jobs())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert most < 300 * count
