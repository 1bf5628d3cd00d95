"""Looks at the hardware of a live cluster: questions, parsers, one round per node."""
