"""`ansible.builtin.apt`, asked only where a package is missing: on machines without a baked image install steps run at every converge.

apt opens its whole database for each task, and fetches package lists that are an hour old; dpkg-query answers from the record of what is
installed. It is asked each time, so a package that somebody removed is missing at once, in check mode too.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ansible.plugins.action import ActionBase


def question(names: Sequence[str]) -> str:
    """The command that tells the state of packages; it fails where one was never known, and tells the others all the same."""
    return f"dpkg-query --show --showformat '${{Package}} ${{db:Status-Status}}\\n' -- {' '.join(map(shlex.quote, names))}"


def missing(names: Sequence[str], told: str) -> list[str]:
    """The packages that are not installed whole; configuration files alone, or half an installation, are none."""
    installed = {line.split()[0] for line in told.splitlines() if line.split()[1:] == ["installed"]}
    return [name for name in names if name not in installed]


class ActionModule(ActionBase):  # type: ignore[misc]
    """The task `rackwright_apt:` with the arguments of `ansible.builtin.apt`; `name` is a package or a list of them."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Nothing where all are there, else what apt says."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args["name"]
        names = [given] if isinstance(given, str) else list(given)
        told = self._low_level_execute_command(question(names))
        if not missing(names, told.get("stdout", "")):
            return {**result, "changed": False}
        return {**result, **self._execute_module(module_name="ansible.builtin.apt", module_args=self._task.args, task_vars=task_vars)}
