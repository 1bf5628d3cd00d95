"""Programs that the resources run: podman, ssh, ansible and pytest, each as a child process that can be stopped."""
