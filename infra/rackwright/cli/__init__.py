"""The command line: thin. Each command is one call into the rooms of the house."""
