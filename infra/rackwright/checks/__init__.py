"""What proves a live cluster: the checks of `verify`, the jobs of `acceptance`, the collector of `hardware`. Each runs as a process."""
