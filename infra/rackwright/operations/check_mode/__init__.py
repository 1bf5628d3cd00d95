"""What nodes answered the phases when they would have changed nothing: a run follows from these answers and its inputs."""
