"""Rules for target `aws`."""
