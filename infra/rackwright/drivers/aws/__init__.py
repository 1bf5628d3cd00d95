"""AWS through boto3, for what Pulumi does not do: look things up beforehand, and find what a stack left behind.

What makes things is target `aws`.
"""
