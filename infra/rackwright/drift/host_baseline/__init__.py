"""Changes outside the roles' files: each node compared with a baseline from a known good state."""
