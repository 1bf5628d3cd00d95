"""Rules for budget and cost."""
