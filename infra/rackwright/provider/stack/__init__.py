"""Resources that act on the whole stack: Converge and Verification."""
