"""AWS through boto3, for the parts that Pulumi does not cover: queries before an `up`, and the search for a stack's leftovers.

Target `aws` creates the resources.
"""
