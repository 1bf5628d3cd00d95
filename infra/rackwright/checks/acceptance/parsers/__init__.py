"""Parsers of tool output. A parser raises UndeterminedError for text that is truncated or not the tool's."""
