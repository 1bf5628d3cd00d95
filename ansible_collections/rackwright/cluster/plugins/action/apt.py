"""Run `ansible.builtin.apt` only where a package is missing: on machines without a prebuilt image, install steps run at every converge.

apt opens its whole database for each task, and fetches package lists that are an hour old; dpkg-query answers from the record of what is
installed. dpkg is queried each time, so that a removed package is found, in check mode too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils.idle import wait_until_idle


def missing(names: Sequence[str], told: str) -> list[str]:
    """Return the packages that are not completely installed, or not in the requested version; configuration files alone do not count."""
    lines = [line.split() for line in told.splitlines()]
    installed = {words[0]: "".join(words[2:]) for words in lines if words[1:2] == ["installed"]}
    return [name for name in names if not _is_there(name, installed)]


def _is_there(name: str, installed: Mapping[str, str]) -> bool:
    """Whether `name` or `name=version` is installed; the version may end in an asterisk, as apt takes it."""
    package, _, version = name.partition("=")
    return package in installed and (not version or fnmatchcase(installed[package], version))


def with_package_lists(arguments: Mapping[str, Any], *, there: bool) -> Mapping[str, Any]:
    """Return the arguments of apt without the age of package lists that do not exist: apt reads the age of their folder.

    A node image that was built less than an hour ago has a folder that is empty and young.
    """
    return arguments if there else {name: value for name, value in arguments.items() if name != "cache_valid_time"}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The task `rackwright.cluster.apt:` with the arguments of `ansible.builtin.apt`; `name` is one or a list, each may say `=version`."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `changed: false` if all packages are installed, else the result of apt."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args["name"]
        names = [given] if isinstance(given, str) else list(given)
        known = {"names": [name.partition("=")[0] for name in names]}
        asked = self._ask("rackwright.cluster.dpkg_facts", known, task_vars)
        if not missing(names, asked.get("dpkg_output", "")):
            return {**result, "changed": False}
        arguments: Mapping[str, Any] = self._task.args
        if not self._task.check_mode:  # apt simulates without locks.
            facts: dict[str, Any] = {}

            def query() -> dict[str, Any]:
                facts.update(self._ask("rackwright.cluster.busy_facts", {}, task_vars))
                return facts

            _, problem = wait_until_idle(str((task_vars or {}).get("inventory_hostname", "")), query)
            if problem:
                return {**result, "changed": False, "failed": True, "msg": f"no packages were installed, because {problem}"}
            arguments = with_package_lists(arguments, there=facts.get("package_lists", True))
        return {**result, **self._ask("ansible.builtin.apt", arguments, task_vars)}

    def _ask(self, module: str, arguments: Mapping[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a module on the node."""
        found: dict[str, Any] = self._execute_module(module_name=module, module_args=dict(arguments), task_vars=task_vars)
        return found
