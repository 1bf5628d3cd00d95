"""The `pulumi` in .venv/bin: the real engine with the defaults a bare one cannot take from Pulumi.yaml."""
