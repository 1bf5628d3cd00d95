"""Verdicts on numbers: against a threshold with a source, the cluster's own baseline, and the median of a node's peers. Pure functions."""
