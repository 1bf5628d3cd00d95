"""Areas of the end-to-end tests: areas that a change affects, areas that fit a time budget, and the time of each area's last pass."""
