"""Text and JSON data of the commands: tables, costs, plans, next steps."""
