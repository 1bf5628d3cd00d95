"""Pulumi's provider protocol: property values, diffs, secrets, partial failures."""
