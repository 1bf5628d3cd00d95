"""Resources that act on all nodes of the stack: Converge and Verification."""
