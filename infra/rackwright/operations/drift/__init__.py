"""Drift scan, its three layers, notification and reconciliation."""
