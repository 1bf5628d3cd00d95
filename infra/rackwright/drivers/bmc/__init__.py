"""Power of machines through their BMCs: Redfish and IPMI behind one interface."""
