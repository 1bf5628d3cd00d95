"""Resources that are generated once and live in the state only: key pair, random bytes, certificates, timestamp."""
