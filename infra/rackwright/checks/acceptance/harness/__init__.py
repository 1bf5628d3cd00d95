"""The run of the phases: one session with the node from which jobs are submitted, and one record of all results."""
