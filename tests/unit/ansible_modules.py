"""Loads the project's own Ansible modules as Python modules, so that they can be tested without Ansible."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ansible.module_utils

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"


class ModuleEndError(Exception):
    """A module's last word, in place of the exit of its process."""

    def __init__(self, failed: bool, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.failed = failed
        self.told = told


def load(name: str) -> ModuleType:
    """The module `playbooks/library/<name>.py`, with the project's module_utils importable as under Ansible."""
    own = str(PLAYBOOKS / "module_utils")
    if own not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(own)
    spec = importlib.util.spec_from_file_location(name, PLAYBOOKS / "library" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Stage:
    """An AnsibleModule that validates its arguments as the real one does, and raises instead of ending the process."""

    def __init__(self, arguments: dict[str, Any], check: bool, diff: bool) -> None:
        self.arguments, self.check, self.diff = arguments, check, diff

    def __call__(self, argument_spec: dict[str, Any], **kwargs: Any) -> Stage:
        from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

        result = ArgumentSpecValidator(argument_spec).validate(self.arguments)
        assert not result.error_messages, result.error_messages
        self.params = result.validated_parameters
        self.check_mode = self.check and kwargs.get("supports_check_mode", False)
        self._diff = self.diff
        return self

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        """As AnsibleModule's own."""
        import subprocess

        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def exit_json(self, **told: Any) -> None:
        raise ModuleEndError(False, told)

    def fail_json(self, **told: Any) -> None:
        raise ModuleEndError(True, told)


def run(module: ModuleType, arguments: dict[str, Any], *, check: bool = False, diff: bool = False) -> dict[str, Any]:
    """The module's result; a failed one carries `failed: True`, as under Ansible."""
    real, module.AnsibleModule = module.AnsibleModule, Stage(arguments, check, diff)  # type: ignore[attr-defined]
    try:
        module.main()
    except ModuleEndError as exited:
        return {**exited.told, "failed": exited.failed}
    finally:
        module.AnsibleModule = real  # type: ignore[attr-defined]
    raise AssertionError("the module ended without a result")


__all__ = ["PLAYBOOKS", "load", "run"]
