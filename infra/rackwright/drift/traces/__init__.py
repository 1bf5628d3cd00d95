"""What nobody declared: what each node has beside what roles write, against what it had when all was well."""
