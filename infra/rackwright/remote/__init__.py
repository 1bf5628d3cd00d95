"""Python programs of the project that run on nodes, and the command that starts them there. README.md holds the contract."""
