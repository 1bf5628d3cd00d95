"""The search for the node, pair, leaf or rail that makes a collective slow: group tests by halving."""
