"""Operations of `rackwright monitor`: queries, and boards in the browser."""
