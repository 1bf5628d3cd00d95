"""Slurm's own test suite against a stack: run what applies as an ordinary user, and compare each result with the expected one."""
