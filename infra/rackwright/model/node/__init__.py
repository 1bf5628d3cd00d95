"""Models of what every node of a group gets: drivers, kernel settings, containers, tools, directory."""
