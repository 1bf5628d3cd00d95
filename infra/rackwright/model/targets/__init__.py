"""Models of the targets that have many fields: AWS, SSH hosts, cost of ownership."""
