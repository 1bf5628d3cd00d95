"""A moto server with what moto lacks added in its own process, so that boto3, the engine and a test all see the same account."""
