"""Checks that this machine and this user can run a lab, before anything is created. They change nothing."""
