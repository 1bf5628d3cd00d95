"""Differences between a stack's declaration and its live state: three layers, one list."""
