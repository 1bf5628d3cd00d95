"""The documentation site: configuration, hook and theme for MkDocs."""
