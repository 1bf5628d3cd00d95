"""Tables of rows in one test: every row runs, and each that fails is named."""

from __future__ import annotations

import inspect

import pytest
from support.rows import each_row


def test_all_rows_run_and_failing_ones_are_named():
    seen = []

    @each_row(("number", "square"), [(1, 1), (2, 5), (3, 9), (4, 15)])
    def check(number, square):
        seen.append(number)
        assert number**2 == square

    with pytest.raises(ExceptionGroup, match=r"^2 of 4 rows failed: 2-5 \(row 1\), 4-15 \(row 3\)") as caught:
        check()
    assert seen == [1, 2, 3, 4]
    assert [error.__notes__ for error in caught.value.exceptions] == [["in 2-5 (row 1)"], ["in 4-15 (row 3)"]]
    assert "assert (2 ** 2) == 5" in str(caught.value.exceptions[0])


def test_tables_are_combined():
    seen = []

    @each_row("a", [1, 2])
    @each_row("b, c", [("x", "y"), ("z", "w")])
    def check(a, b, c):
        seen.append((a, b, c))

    check()
    assert seen == [(1, "x", "y"), (1, "z", "w"), (2, "x", "y"), (2, "z", "w")]


def test_arguments_that_are_no_column_are_fixtures():
    @each_row("a", [1])
    def check(a, tmp_path, goldens):
        assert (a, tmp_path, goldens) == (1, 2, 3)

    assert list(inspect.signature(check).parameters) == ["tmp_path", "goldens"]
    check(tmp_path=2, goldens=3)


@pytest.mark.parametrize("end", [pytest.skip, pytest.fail])
def test_row_that_skips_or_fails_by_name_does_not_end_the_others(end):
    seen = []

    @each_row("a", [1, 2])
    def check(a):
        seen.append(a)
        end("reason")

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows failed"):
        check()
    assert seen == [1, 2]


@pytest.mark.parametrize(("ids", "named"), [(["one"], "one"), (lambda cell: cell["k"], "v"), (None, "cell")])
def test_ids_name_rows(ids, named):
    @each_row("cell", [{"k": "v"}], ids=ids)
    def check(cell):
        raise OSError(cell)

    with pytest.raises(ExceptionGroup, match=rf"1 of 1 rows failed: {named} \(row 0\)"):
        check()


def test_broken_tables_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        each_row("a", [])
    with pytest.raises(ValueError, match="zip"):
        each_row(("a", "b"), [(1, 2, 3)])
    with pytest.raises(ValueError, match="takes no argument b"):
        each_row("b", [1])(lambda a: None)
    with pytest.raises(ValueError, match="row 1 has marks"):
        each_row("a", [1, pytest.param(2, marks=pytest.mark.skip)])


def test_named_parameters_are_rows():
    seen = []

    @each_row(("a", "b"), [pytest.param(1, 2, id="first"), (3, 4)])
    def check(a, b):
        seen.append((a, b))
        assert b == 4

    with pytest.raises(ExceptionGroup, match=r"1 of 2 rows failed: first \(row 0\)"):
        check()
    assert seen == [(1, 2), (3, 4)]


def test_table_of_a_class_is_that_of_each_test():
    seen = []

    @each_row("a", [1, 2])
    class TestBoth:
        def test_first(self, a):
            seen.append(("first", a))

        @each_row("b", [3])
        def test_second(self, a, b):
            seen.append(("second", a, b))

    TestBoth().test_first()
    TestBoth().test_second()
    assert seen == [("first", 1), ("first", 2), ("second", 1, 3), ("second", 2, 3)]
