"""A label added to every selector of a query, and to nothing else."""

from __future__ import annotations

import doctest

import pytest
from support.rows import each_row

from rackwright.catalog.alerts import alerts
from rackwright.inventory import promql
from rackwright.inventory.promql import with_label


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(promql).failed == 0


@pytest.mark.parametrize(
    ("query", "scoped"),
    [
        pytest.param("up == 0", 'up{s="x"} == 0', id="bare"),
        pytest.param("up{} == 0", 'up{s="x"} == 0', id="empty-braces"),
        pytest.param('up {job="a or b"}', 'up {s="x",job="a or b"}', id="operator-in-text"),
        pytest.param('{__name__=~"a.*"}', '{s="x",__name__=~"a.*"}', id="no-name"),
        pytest.param("vector(1)", "vector(1)", id="no-selector"),
        pytest.param("sum by (job, up) (rate(a_total[5m]))", 'sum by (job, up) (rate(a_total{s="x"}[5m]))', id="aggregation-first"),
        pytest.param("sum(a) by(job) / 1e-15", 'sum(a{s="x"}) by(job) / 1e-15', id="aggregation-last"),
        pytest.param("a * on(i) group_left(n) b", 'a{s="x"} * on(i) group_left(n) b{s="x"}', id="group-left"),
        pytest.param("a > bool 0 AND b offset 5m", 'a{s="x"} > bool 0 AND b{s="x"} offset 5m', id="words"),
        pytest.param("max_over_time(a[1h:5m]) % 2", 'max_over_time(a{s="x"}[1h:5m]) % 2', id="subquery"),
        pytest.param(
            'label_replace(a{b="1"}, "i", "$1", "n", "(.+)")', 'label_replace(a{s="x",b="1"}, "i", "$1", "n", "(.+)")', id="texts"
        ),
        pytest.param("count == 1 or job:up:rate5m", 'count{s="x"} == 1 or job:up:rate5m{s="x"}', id="metric-named-as-aggregation"),
    ],
)
def test_every_selector_gets_the_label(query: str, scoped: str) -> None:
    assert with_label(query, "s", "x") == scoped


@each_row("rule", alerts().values(), ids=lambda rule: rule.name)
def test_rules_of_the_table_are_scoped(rule: object) -> None:
    expression = rule.expression  # type: ignore[attr-defined]
    scoped = with_label(expression, "stack", "lab")
    assert scoped.replace('{stack="lab"}', "").replace('stack="lab",', "") == expression
    assert ('stack="lab"' in scoped) == (expression != "vector(1)")
