"""How phases are run: one conversation with the node that jobs are sent from, one record of everything."""
