"""What the resources drive: podman, ssh, ansible and pytest, each as a child process that can be ended."""
