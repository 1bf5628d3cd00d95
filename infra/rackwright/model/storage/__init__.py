"""Models of shared and local storage: exports, FSx for Lustre, existing servers, scratch."""
