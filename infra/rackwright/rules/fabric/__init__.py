"""Rules for the high-speed network."""
