"""The project's own Ansible modules, run without Ansible."""

from standins.ansible_module import run

__all__ = ["run"]
