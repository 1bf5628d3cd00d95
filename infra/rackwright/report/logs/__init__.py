"""Log entries of nodes as data: a window of time, entries and their gaps, what happened to a job."""
