"""Tables of answers: columns, order, ages, ids."""

from __future__ import annotations

from fathom.cli.tables import age, by_name, laid_out, natural, short_id, table_lines

ROWS = [
    ("NAME", "ABOUT"),
    ("a-very-long-name", "words that go on and on beyond what fits"),
    ("b", ""),
]


def test_in_a_pipe_a_row_is_one_line() -> None:
    assert table_lines(ROWS) == [
        "NAME               ABOUT",
        "a-very-long-name   words that go on and on beyond what fits",
        "b",
    ]


def test_on_a_terminal_texts_are_wrapped_at_words_in_their_column() -> None:
    assert laid_out(ROWS, 48) == [
        ["NAME               ABOUT"],
        [
            "a-very-long-name   words that go on and on",
            "                   beyond what fits",
        ],
        ["b"],
    ]


def test_a_table_that_cannot_fit_keeps_its_lines() -> None:
    assert laid_out(ROWS, 30) == [[line] for line in table_lines(ROWS)]


def test_what_a_terminal_obeys_is_counted_as_it_is_shown() -> None:
    assert table_lines([("A", "B"), ("x\n", "y")]) == ["A     B", r"x\n   y"]


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["node-10", "node-2", "a", "node-2-b"]
    assert sorted(names, key=natural) == ["a", "node-2", "node-2-b", "node-10"]
    objs = [
        {"metadata": {"name": "b-10"}},
        {"metadata": {"name": "b-9"}},
        {"metadata": {"name": "a", "namespace": "x"}},
    ]
    assert [obj["metadata"]["name"] for obj in sorted(objs, key=by_name)] == ["b-9", "b-10", "a"]


def test_ages_are_kubectls_and_never_negative() -> None:
    second = 1_000_000_000
    assert [age(0, now * second) for now in (0, 90, 3600 * 5)] == ["0s", "90s", "5h"]
    assert age(9 * second, 0) == "0s"


def test_only_uuids_are_shortened() -> None:
    ids = ["35609443-cd6b-4149-a42b-561bbb9f178a", "1cc42f909420-1", "d-unschedulable"]
    assert [short_id(id_) for id_ in ids] == ["35609443", "1cc42f909420-1", "d-unschedulable"]
