"""Slurm in the plan."""
