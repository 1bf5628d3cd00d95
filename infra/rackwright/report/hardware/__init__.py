"""The hardware report: what nodes have, beside what the plan says they have."""
