"""Running jobs: what their ranks were seen doing, and which of them are suspicious."""
