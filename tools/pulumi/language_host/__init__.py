"""The Pulumi language host for Python: serves the engine's LanguageRuntime and runs the program."""
