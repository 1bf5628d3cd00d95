"""Rules for Slurm."""
