"""Queries of Prometheus, edited as text: just enough of the language for the project's own rules."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<range>\[[^\]]*\])|(?P<number>\d[\w.]*(?:(?<=[eE])[+-]\d+)?)"""
    r"""|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<space>\s+)|(?P<other>.)"""
)
_LABELS_FOLLOW: Final = frozenset({"on", "ignoring", "by", "without", "group_left", "group_right"})
"""Words that a list of labels in parentheses may follow (prometheus.io/docs, Operators)."""
_OPERATORS: Final = frozenset({"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"})
_AGGREGATORS: Final = frozenset(
    (
        *("sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile"),
        *("limitk", "limit_ratio"),
    )
)
"""Words that `by (…)` may follow before their parentheses."""


def with_label(expression: str, label: str, value: str) -> str:
    """Return a query whose selectors all demand a value of a label.

    >>> with_label('up{job="node"} == 0 unless on(job) rate(x_total[5m])', "stack", "lab")
    'up{stack="lab",job="node"} == 0 unless on(job) rate(x_total{stack="lab"}[5m])'
    """
    matcher = f'{label}="{value}"'
    tokens = [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(expression)]
    written: list[str] = []
    names_labels = False
    """Whether the tokens are names of labels: in braces, or in the list of an operator."""
    for place, (kind, token) in enumerate(tokens):
        following = next((text for other, text in tokens[place + 1 :] if other != "space"), "")
        if token == "{":
            names_labels = True
            token += matcher + ("" if following == "}" else ",")
        elif token in ("}", ")"):
            names_labels = False
        elif kind == "word" and token.lower() in _LABELS_FOLLOW:
            names_labels = following == "("
        elif kind == "word" and not names_labels and _is_metric(token, following):
            token += "" if following == "{" else f"{{{matcher}}}"
        written.append(token)
    return "".join(written)


def _is_metric(word: str, following: str) -> bool:
    """Return whether a word selects series: it is no operator, and neither a function nor an aggregation."""
    return word.lower() not in _OPERATORS and following != "(" and not (word.lower() in _AGGREGATORS and following in ("by", "without"))
