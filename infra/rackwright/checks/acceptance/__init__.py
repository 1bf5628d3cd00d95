"""The acceptance of a cluster: jobs of an ordinary user, phase by phase, and the verdicts on their output."""
