"""An emulated BMC: a Redfish service over TLS with the profile of a vendor. It is no evidence of how a real BMC behaves (README.md)."""
