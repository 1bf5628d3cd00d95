"""Demonstrations on a running stack: jobs of an ordinary user, and what they proved."""
