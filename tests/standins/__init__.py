"""Stand-ins for systems that a test machine cannot reach. Their results concern this project only (README.md)."""
