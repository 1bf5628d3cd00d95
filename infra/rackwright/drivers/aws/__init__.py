"""AWS through boto3, for what Pulumi does not do: queries before an `up`, and the search for a stack's leftovers.

Target `aws` creates the resources.
"""
