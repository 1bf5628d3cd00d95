"""Stand-ins for what a test machine cannot reach. What they show is about this project alone (README.md)."""
