"""The hardware report of a live cluster: commands, parsers, one round per node."""
