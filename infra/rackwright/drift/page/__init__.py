"""A drift scan as one HTML file that can be forwarded: no script, no external link, light and dark, for a phone and for print."""
