"""Boards of monitoring, rendered: a page for the browser, and dashboards for Grafana. Pure."""
