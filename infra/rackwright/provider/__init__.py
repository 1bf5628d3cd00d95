"""The `rackwright` resource provider: what each resource does when Pulumi creates, reads, updates or deletes it.

A plugin process of its own, which the Pulumi engine starts. Which resources a stack has, and with which inputs, is declared in
`rackwright.targets`.
"""
