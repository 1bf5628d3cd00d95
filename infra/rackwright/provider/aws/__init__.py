"""Resources of stacks on AWS that the AWS provider does not have."""
