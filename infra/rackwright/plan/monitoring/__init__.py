"""Monitoring in the plan: what is scraped, and what each node must report."""
