"""Resources of the lab: containers, networks, volumes and the power of nodes."""
