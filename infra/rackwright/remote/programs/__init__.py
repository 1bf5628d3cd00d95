"""Programs that run on nodes (Python 3.9, standard library and each other). `rackwright.remote.command` sends them."""
