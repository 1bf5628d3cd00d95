"""The `rackwright` resource provider: a plugin process that creates nodes, converges them and verifies them."""
