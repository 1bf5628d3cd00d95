"""Models of shared and local storage: exports, FSx for Lustre, scratch."""
