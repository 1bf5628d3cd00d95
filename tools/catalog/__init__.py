"""Update of the columns of `infra/rackwright/catalog/instances.csv` and `regions.csv` that a library provides."""
