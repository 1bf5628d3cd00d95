"""Rules for every target and scheduler."""
