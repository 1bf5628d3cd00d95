"""The `rackwright` resource provider: a plugin process that makes nodes, converges them and verifies them."""
