"""How checks are run: every question to a node in one ssh round, all nodes at once, then plain comparison with the plan."""
