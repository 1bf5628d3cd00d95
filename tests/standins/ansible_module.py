"""The project's Ansible collection, importable from `ansible_collections` as under Ansible, and a way to run a module without Ansible."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from rackwright import layout

sys.path.append(str(layout.product_root()))


class ModuleEndError(Exception):
    """A module's last word, in place of the exit of its process."""

    def __init__(self, failed: bool, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.failed = failed
        self.told = told


class Stage:
    """An AnsibleModule that validates its arguments as the real one does, and raises instead of ending the process."""

    def __init__(self, arguments: dict[str, Any], check: bool, diff: bool) -> None:
        self.arguments, self.check, self.diff = arguments, check, diff

    def __call__(self, argument_spec: dict[str, Any], **kwargs: Any) -> Stage:
        result = ArgumentSpecValidator(argument_spec).validate(self.arguments)
        assert not result.error_messages, result.error_messages
        self.params = result.validated_parameters
        self.check_mode = self.check and kwargs.get("supports_check_mode", False)
        self._diff = self.diff
        self.warnings: list[str] = []
        return self

    def warn(self, warning: str) -> None:
        """Record a warning as AnsibleModule does: warnings are part of every result."""
        self.warnings.append(warning)

    def run_command(self, command: list[str]) -> tuple[int, str, str]:
        """Run a command as AnsibleModule does."""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def exit_json(self, **told: Any) -> None:
        raise ModuleEndError(False, {**({"warnings": self.warnings} if self.warnings else {}), **told})

    def fail_json(self, **told: Any) -> None:
        raise ModuleEndError(True, told)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a module once; the result of a failed one has `failed: True`, as under Ansible."""

    def once(module: ModuleType, arguments: dict[str, Any], *, check: bool = False, diff: bool = False) -> dict[str, Any]:
        monkeypatch.setattr(module, "AnsibleModule", Stage(arguments, check, diff))
        with pytest.raises(ModuleEndError) as ended:
            module.main()
        return {**ended.value.told, "failed": ended.value.failed}

    return once
