"""Use cases that the command line and the provider call; each returns data and prints nothing."""
