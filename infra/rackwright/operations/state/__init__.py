"""The state directory: files, backup, restore, migration to another Pulumi backend."""
