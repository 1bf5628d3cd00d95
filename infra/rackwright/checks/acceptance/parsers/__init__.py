"""Outputs of tools as data. A parser raises UndeterminedError for text that is cut short or not the tool's."""
