"""Manage the files, directories and links of a role in one task.

An Ansible task takes far longer than the write that it performs; this module performs all writes of a role at once, atomically,
and reports in check mode exactly what a real run would change. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.file_tree import TREE_ARGUMENTS, PathError, Tree

DOCUMENTATION = r"""
module: files
short_description: Manage files, directories and links of a role in one task
description:
  - The order is directories, files, links, absent. Missing parent directories are created with mode 0755.
  - Writes are atomic; a file that is a mount point (C(/etc/hosts) in some containers) is rewritten in place.
  - An owner that does not exist yet counts as a change in check mode and is an error in a real run.
options:
  files:
    description: Regular files.
    type: list
    elements: dict
    suboptions:
      path: {type: path, required: true, description: Absolute path.}
      content: {type: str, required: true, description: Complete content.}
      base64: {type: bool, default: false, description: C(content) is base64 of the bytes to write.}
      mode: {type: str, default: "0644", description: Four octal digits.}
      owner: {type: str, description: User name or number; default is the user the module runs as.}
      group: {type: str, description: Group name or number; default is the group the module runs as.}
      sensitive: {type: bool, default: false, description: Show no content in diffs and errors.}
      validate: {type: str, description: Command that validates the new file before it is installed; C(%s) is its path.}
  directories:
    description: Directories, with C(path), C(mode) (0755), C(owner), C(group).
    type: list
    elements: dict
  links:
    description: Symbolic links, with C(path) and C(target).
    type: list
    elements: dict
  absent:
    description: Files, links or empty directories that must not exist.
    type: list
    elements: path
notes:
  - C(ansible.builtin.copy), C(ansible.builtin.file) and C(ansible.builtin.template) need one task and one connection for each file.
    For a single file, use them.
"""

EXAMPLES = r"""
- name: Install the configuration of munge
  rackwright.cluster.files:
    files:
      - path: /etc/munge/munge.key
        content: "{{ munge_key }}"
        base64: true
        mode: "0400"
        owner: munge
        group: munge
        sensitive: true
      - path: /etc/default/munge
        content: |
          OPTIONS="--num-threads 4"
    directories:
      - {path: /var/log/munge, mode: "0700", owner: munge, group: munge}
    absent:
      - /etc/munge/munge.key.old
"""

RETURN = r"""
changed_paths:
  description: Every path that was, or in check mode would be, altered.
  returned: always
  type: list
"""


def main() -> None:
    """Run the module."""
    # File contents must not appear in the node's journal (no_log) or in the result (invocation below).
    module = AnsibleModule(argument_spec=TREE_ARGUMENTS, supports_check_mode=True, no_log=True)
    tree = Tree(bool(module.check_mode))
    result: dict[str, Any] = {"invocation": {"module_args": {"paths": [spec["path"] for spec in module.params["files"]]}}}
    failure = ""
    try:
        tree.apply(module.params)
    except PathError as error:
        failure = str(error)
    result.update(changed=bool(tree.changed_paths), changed_paths=tree.changed_paths)
    if module._diff and tree.diffs:
        result["diff"] = tree.diffs
    if failure:
        module.fail_json(msg=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
