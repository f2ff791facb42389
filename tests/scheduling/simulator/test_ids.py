"""Ids that stand twice are found from patterns alone, as a list of all ids would find them."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulator.dependencies import circle
from scheduling.simulator.ids import Ids
from scheduling.simulator.sources import sources_of

SIDES = st.sampled_from(["", "a", "1", "a1", "1a", "0", "a0", "-"])


@st.composite
def entries(draw):
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        before, behind = draw(SIDES), draw(SIDES)
        if draw(st.booleans()):
            repeat = draw(st.sampled_from([0, 1, 2, 12, 111]))
            rows.append({"id": f"{before}{{n}}{behind}", "tenant": "t", "repeat": repeat})
        else:
            rows.append({"id": f"{before}{draw(st.integers(0, 12))}{behind}", "tenant": "t"})
    return sources_of(tuple(rows))


@given(sources=entries())
def test_twins_are_those_of_a_list_of_all_ids(sources):
    every = [job.id for source in sources for _, _, job in source.arrivals()]
    ids = Ids(sources, None)
    assert bool(ids.twins) == (len(set(every)) < len(every))
    assert all(every.count(job_id) > 1 for _, job_id in ids.twins)
    assert all(job_id in ids for job_id in every)
    for absent in ("a13", "1112", "01", "a", "x", "100000000000000000000"):
        assert (absent in ids) == (absent in every)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 6))
    rows = []
    for place in range(count):
        after = tuple(draw(st.lists(st.sampled_from(NAMES[:count]), max_size=2, unique=True)))
        repeat = draw(st.sampled_from([None, 2]))
        kind = {"id": f"g{place}"} if repeat is None else {"id": f"h{place}-{{n}}", "repeat": 2}
        if repeat and draw(st.booleans()):
            after = tuple(name.replace("-1", "-{n}") for name in after)
        rows.append({**kind, "tenant": "t", "after": after})
    return sources_of(tuple(rows))


NAMES = [f"{kind}{place}{n}" for place in range(6) for kind, n in (("g", ""), ("h", "-1"))]


@given(sources=graphs())
def test_a_circle_is_found_exactly_when_taking_off_free_jobs_leaves_some(sources):
    left = {job.id: set(job.after) for source in sources for _, _, job in source.arrivals()}
    while free := [name for name, after in left.items() if not after & left.keys()]:
        for name in free:
            del left[name]
    found = circle(sources, Ids(sources, None))
    assert (found is not None) == bool(left)
    if found is not None:
        assert found[1][0] == found[1][-1] or len(set(found[1])) < len(sources) * 2
