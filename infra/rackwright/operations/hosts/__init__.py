"""Existing machines of a stack (target hosts): import, preflight scan, host keys."""
