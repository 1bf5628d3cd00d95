"""Results of checks into one verdict, and the verdict into what people and machines read. Looks at nothing itself."""
