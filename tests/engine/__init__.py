"""The bootstrap's parts on the real engine."""
