"""A drift scan as one HTML file that a person forwards: no script, no link out, light and dark, for a phone and for print."""
