"""Pictures of a stack's pages, for the README."""
