"""Reports: check results combined into a verdict, and rendered for people and programs. Queries no node."""
