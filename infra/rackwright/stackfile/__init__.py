"""Stack files as YAML: reading, field errors, comparison and edits that keep comments."""
