"""Operations of `rackwright monitor`: queries, boards in the browser, boards as files."""
