"""Failures that are injected into a running stack, one at a time: scheduled, permitted, undone, and recorded with their effect."""
