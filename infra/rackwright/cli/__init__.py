"""The command line. Each command parses its arguments, calls the other packages and prints the result."""
