"""What leaves the process for a browser, by topic and viewer (C62)."""

import msgspec
import pytest

from scheduling.cockpit import filters
from scheduling.cockpit.board import Viewer
from scheduling.cockpit.topics import TOPICS, Ask, Source, lanes, order, shares, summary
from scheduling.cockpit.window import View
from scheduling.core.types import Reason
from tests.scheduling.cockpit.boards import IDS, Story, Waiting, job_id, mixed

OPERATOR = Viewer(user_id=1, name="olga", tenants=None, costs=None)
ACME = Viewer(user_id=2, name="vera", tenants=frozenset({IDS["acme"]}))


def shown(view: View, column: str) -> list[object]:
    at = view.cols.index(column)
    return [row[at] for row in view.rows]


def test_an_operator_sees_all_rows_in_order() -> None:
    view = order(Source(board=mixed(6).board()), OPERATOR, Ask(topic="order"))
    assert shown(view, "id") == [job_id(n) for n in range(6)]
    assert view.total == 6
    assert view.places is None


def test_a_viewer_sees_own_rows_with_their_true_places() -> None:
    view = order(Source(board=mixed(6).board()), ACME, Ask(topic="order"))
    assert shown(view, "ten") == ["acme"] * 3
    assert view.places == (1, 3, 5)
    assert view.total == 3


def test_no_topic_names_another_tenants_things() -> None:
    story = mixed(6)
    story.running.append(Waiting(number=90, tenant="beta", workflow="secret-beta-flow", cost=2))
    source = Source(board=story.board())
    for name, topic in TOPICS.items():
        sent = msgspec.json.encode(topic(source, ACME, Ask(topic=name))).decode().lower()
        assert "beta" not in sent, name
        for number in (1, 3, 5, 90):
            assert job_id(number) not in sent, name


def test_an_empty_set_of_tenants_sees_nothing() -> None:
    nobody = Viewer(user_id=3, name="nobody", tenants=frozenset())
    view = order(Source(board=mixed(6).board()), nobody, Ask(topic="order"))
    assert view.rows == ()
    assert view.total == 0


def test_a_member_of_one_workspace_sees_its_rows_only() -> None:
    story = Story(waiting=[Waiting(number=1, workspace=0), Waiting(number=2, workspace=1)])
    member = Viewer(
        user_id=4,
        name="wanda",
        tenants=frozenset({IDS["acme"]}),
        partly=frozenset({IDS["acme"]}),
        workspaces=frozenset({(IDS["acme"], "labs")}),
    )
    view = order(Source(board=story.board()), member, Ask(topic="order"))
    assert shown(view, "id") == [job_id(2)]
    assert lanes(Source(board=story.board()), member, Ask(topic="lanes")).total == 1


def test_a_row_that_cannot_start_has_no_place_and_no_times() -> None:
    story = Story(
        waiting=[Waiting(number=1), Waiting(number=2, start=None, reason=Reason.JOB_PAUSED)]
    )
    view = order(Source(board=story.board()), ACME, Ask(topic="order"))
    assert view.places == (1, 0)
    assert shown(view, "end")[1] is None
    assert shown(view, "turn") == [7, -1]
    assert shown(view, "why")[1] == "job_paused"


def test_the_window_is_clamped_to_what_there_is() -> None:
    view = order(Source(board=mixed(6).board()), OPERATOR, Ask(topic="order", off=99, n=10))
    assert (view.off, len(view.rows), view.total) == (5, 1, 6)


def test_summary_counts_own_and_all_jobs_apart() -> None:
    view = summary(Source(board=mixed(6).board()), ACME, Ask(topic="summary"))
    facts = {row[0]: row[1] for row in view.rows}
    assert (facts["waiting"], facts["waiting_all"]) == (3, 6)
    assert "clear_low" not in facts


def test_shares_are_sorted_by_slug() -> None:
    view = shares(Source(board=mixed(2).board()), OPERATOR, Ask(topic="shares"))
    assert shown(view, "id") == ["acme", "beta"]


def test_lanes_show_running_jobs_before_planned_ones_up_to_the_horizon() -> None:
    story = Story(
        waiting=[Waiting(number=1, start=50), Waiting(number=2, start=5000)],
        running=[Waiting(number=9)],
    )
    view = lanes(Source(board=story.board()), OPERATOR, Ask(topic="lanes", span_s=60))
    assert shown(view, "id") == [job_id(9), job_id(1)]
    assert shown(view, "run") == [True, False]


def selected(text: str, viewer: Viewer = OPERATOR) -> list[object]:
    story = Story(
        waiting=[
            Waiting(number=0x1ABC, cost=3),
            Waiting(number=2, tenant="beta", workflow="review"),
            Waiting(number=3, start=None, reason=Reason.BUDGET, job_class="batch"),
        ]
    )
    ask = Ask(topic="order", words=filters.parse(text))
    return shown(order(Source(board=story.board()), viewer, ask), "id")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("tenant:beta", [2]),
        ("tenant:ACME cost:>1", [0x1ABC]),
        ("cost:<3", [2, 3]),
        ("cost:3", [0x1ABC]),
        ("workflow:rev", [2]),
        ("workspace:main", [0x1ABC, 2, 3]),
        ("why:budget", [3]),
        ("class:batch", [3]),
        ("id:1abc", [0x1ABC]),
        ("1abc", [0x1ABC]),
        ("review", [2]),
        ("tenant:none", []),
    ],
)
def test_filter_words_select_rows(text: str, numbers: list[int]) -> None:
    assert selected(text) == [job_id(number) for number in numbers]


def test_filtering_for_a_hidden_tenant_reads_like_an_unknown_one() -> None:
    assert selected("tenant:beta", ACME) == selected("tenant:unknown", ACME) == []


@pytest.mark.parametrize(
    ("text", "part"),
    [("colour:red", "Unknown filter key"), ("tenant:", "Write a value"), ("cost:many", "cost:2")],
)
def test_a_filter_that_cannot_be_read_says_why(text: str, part: str) -> None:
    with pytest.raises(filters.BadFilter, match=part):
        filters.parse(text)


def test_a_filter_has_a_bounded_number_of_words() -> None:
    with pytest.raises(filters.BadFilter, match="at most"):
        filters.parse("a " * 50)


def test_a_selection_is_made_once_a_board() -> None:
    board = mixed(6).board()
    first = filters.select(board, ACME, "*", ())
    assert filters.select(board, ACME, "*", ()) is first
