"""Models of the schedulers: Slurm, Kubernetes."""
