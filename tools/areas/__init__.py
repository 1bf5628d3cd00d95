"""Areas of the end-to-end tests: which a change calls for, which fit a budget, when each last passed."""
