"""A stand-in for the `aws` provider plugin: the engine's protocol on one side, boto3 to a moto server on the other. Never AWS."""
