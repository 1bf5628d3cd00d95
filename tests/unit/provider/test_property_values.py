"""Property values survive the wire, and secrets stay secrets on it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rackwright.provider.protocol.property_values import UNKNOWN, Secret, decode, encode, has_unknown, secrets_in, unwrap_secrets
from rackwright.provider.protocol.redaction import Redactor, restore_secret_marks

_SCALARS = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=20)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4) | inner.map(Secret),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), _VALUES, max_size=5))
def test_what_is_encoded_decodes_to_the_same_with_secrets_still_wrapped(properties: dict[str, object]) -> None:
    assert decode(encode(properties)) == properties


def test_a_secret_never_shows_its_value_when_printed() -> None:
    assert "hunter22" not in repr(Secret("hunter22"))


def test_unknown_values_are_found_at_any_depth() -> None:
    assert has_unknown({"a": [{"b": Secret(UNKNOWN)}]})
    assert not has_unknown({"a": [{"b": Secret("known")}]})


def test_reveal_unwraps_at_any_depth() -> None:
    assert unwrap_secrets({"a": [Secret({"b": Secret("c")})]}) == {"a": [{"b": "c"}]}


def test_rewrap_marks_what_was_secret_on_record_and_nothing_else() -> None:
    recorded = {"key": Secret("k"), "inner": {"password": Secret("p"), "plain": 1}}
    assert restore_secret_marks({"key": "k2", "inner": {"password": "p2", "plain": 2}, "other": 3}, recorded) == {
        "key": Secret("k2"),
        "inner": {"password": Secret("p2"), "plain": 2},
        "other": 3,
    }


def test_secrets_in_finds_every_text_inside_a_secret() -> None:
    assert sorted(secrets_in({"a": Secret({"x": "one", "y": ["two"]}), "b": "three"})) == ["one", "two"]


def test_the_redactor_masks_a_key_quoted_line_by_line() -> None:
    redact = Redactor()
    redact.learn({"key": Secret("-----BEGIN-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n-----END-----")})
    assert redact("failed near AAAABBBBCCCC and DDDDEEEEFFFF") == "failed near [secret] and [secret]"


def test_outputs_that_hold_a_secret_under_another_name_are_marked() -> None:
    redact = Redactor()
    redact.learn({"password": Secret("correct-horse")})
    sealed = redact.seal({"command": "mysql -pcorrect-horse", "nested": {"deep": ["correct-horse"]}, "plain": "nothing"})
    assert sealed == {"command": Secret("mysql -pcorrect-horse"), "nested": Secret({"deep": ["correct-horse"]}), "plain": "nothing"}


def test_words_of_a_tool_are_shown_and_not_obeyed():
    said = Redactor()("task failed: \x1b[2J\udcff\n  stderr")
    assert said == "task failed: \\x1b[2J\\udcff\n  stderr" and said.encode("utf-8")
