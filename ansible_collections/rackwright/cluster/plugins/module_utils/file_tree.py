"""Manage directories, files, links and absent paths of a node atomically, with exact results in check mode."""

from __future__ import annotations

import base64
import contextlib
import errno
import grp
import os
import pwd
import re
import shlex
import stat
import subprocess
from typing import Any, NamedTuple

PLACE = {"path": {"type": "path", "required": True}}
OWNERSHIP = {"owner": {"type": "str"}, "group": {"type": "str"}}
FILE = {
    **PLACE,
    **OWNERSHIP,
    "mode": {"type": "str", "default": "0644"},
    "content": {"type": "str", "required": True},
    "base64": {"type": "bool", "default": False},
    "sensitive": {"type": "bool", "default": False},
    "validate": {"type": "str"},
}
DIRECTORY = {**PLACE, **OWNERSHIP, "mode": {"type": "str", "default": "0755"}}
LINK = {**PLACE, "target": {"type": "str", "required": True}}
TREE_ARGUMENTS = {
    "files": {"type": "list", "elements": "dict", "default": [], "options": FILE},
    "directories": {"type": "list", "elements": "dict", "default": [], "options": DIRECTORY},
    "links": {"type": "list", "elements": "dict", "default": [], "options": LINK},
    "absent": {"type": "list", "elements": "path", "default": []},
}
SELINUX = "/sys/fs/selinux/enforce"
OWN_LABEL = "/proc/self/attr/current"
"""Label of this process. Without a loaded policy it is the name of an initial SID, `kernel` (security_sid_to_context, Linux
security/selinux/ss/services.c); with one it has the form user:role:type."""
LARGEST_DIFF = 100_000  # bytes of one file; longer diffs are not readable


class PathError(Exception):
    """A path error: place, problem, hint."""


class Attributes(NamedTuple):
    """Permission bits and numeric ownership; None where the name has no number on this node yet."""

    mode: int
    uid: int | None
    gid: int | None

    def __str__(self) -> str:
        return f"mode {self.mode:04o} owner {self.uid} group {self.gid}"


class Tree:
    """Manage the node's files, and record the changed paths."""

    def __init__(self, check: bool) -> None:
        self.check = check
        self.changed_paths: list[str] = []
        self.diffs: list[dict[str, str]] = []

    def apply(self, wanted: dict[str, Any]) -> None:
        """Apply all declared paths, parents before their content."""
        try:
            for spec in wanted["directories"]:
                self.directory(spec)
            for spec in wanted["files"]:
                self.file(spec)
            for spec in wanted["links"]:
                self.link(spec)
            for path in wanted["absent"]:
                self.absent(path)
        except OSError as error:
            raise PathError(f"{error.filename}: {error.strerror}") from error

    def altered(self, path: str, before: str, after: str) -> None:
        """Record one change with its diff."""
        self.changed_paths.append(path)
        self.diffs.append({"before_header": path, "after_header": path, "before": before, "after": after})

    def directory(self, spec: dict[str, Any]) -> None:
        """Manage a directory and its attributes."""
        path, wanted = spec["path"], wanted_attributes(spec, self.check)
        live = status(path)
        if live is not None and not stat.S_ISDIR(live.st_mode):
            raise PathError(f"{path}: expected a directory, found another file type - remove it")
        if live is not None and attributes(live) == wanted:
            return
        self.altered(path, "absent\n" if live is None else f"{attributes(live)}\n", f"directory {wanted}\n")
        if self.check:
            return
        if live is None:
            create_parents(path)
            os.mkdir(path, 0o700)
        set_attributes(path, wanted)

    def file(self, spec: dict[str, Any]) -> None:
        """Manage a regular file, its content and attributes."""
        path, wanted, content = spec["path"], wanted_attributes(spec, self.check), wanted_bytes(spec)
        live = status(path)
        if live is not None and stat.S_ISDIR(live.st_mode):
            raise PathError(f"{path}: expected a file, found a directory - remove it")
        present = read(path) if live is not None and stat.S_ISREG(live.st_mode) else None
        if live is not None and present == content and attributes(live) == wanted:
            return
        self.altered(path, *shown_change(spec, live, present, content, wanted))
        if self.check:
            return
        if present == content:
            set_attributes(path, wanted)
        else:
            self.replace(spec, content, wanted)

    def replace(self, spec: dict[str, Any], content: bytes, wanted: Attributes) -> None:
        """Replace the content through a sibling file, so that no reader and no killed run leaves a partial file."""
        path = spec["path"]
        create_parents(path)
        # A fixed name, so that the next run overwrites the file of a killed run. The dot keeps it out of *.conf globs.
        sibling = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.rackwright")
        remove_if_there(sibling)
        descriptor = os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            set_attributes(sibling, wanted)
            if spec["validate"]:
                self.judge(spec, sibling)
            put_in_place(sibling, path, content, wanted)
        finally:
            remove_if_there(sibling)

    def judge(self, spec: dict[str, Any], candidate: str) -> None:
        """Run the validation command on the new file."""
        command = [word.replace("%s", candidate) for word in shlex.split(spec["validate"])]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            output = "(its words are withheld: the file is sensitive)" if spec["sensitive"] else (done.stderr or done.stdout).strip()
            raise PathError(f"{spec['path']}: `{spec['validate']}` rejects the new content, the old content stays - {output}")

    def link(self, spec: dict[str, Any]) -> None:
        """Manage a symbolic link."""
        path, target = spec["path"], spec["target"]
        live = status(path)
        if live is not None and stat.S_ISDIR(live.st_mode):
            raise PathError(f"{path}: expected a link, found a directory - remove it")
        present = os.readlink(path) if live is not None and stat.S_ISLNK(live.st_mode) else None
        if present == target:
            return
        self.altered(path, f"{'absent' if live is None else present or 'a file'}\n", f"link to {target}\n")
        if self.check:
            return
        create_parents(path)
        sibling = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.rackwright")
        remove_if_there(sibling)
        os.symlink(target, sibling)
        os.replace(sibling, path)

    def absent(self, path: str) -> None:
        """Remove the path."""
        live = status(path)
        if live is None:
            return
        if stat.S_ISDIR(live.st_mode) and os.listdir(path):
            raise PathError(
                f"{path}: declared absent, found a directory with content - remove the directory by hand if its content is not needed"
            )
        self.altered(path, "present\n", "absent\n")
        if self.check:
            return
        if stat.S_ISDIR(live.st_mode):
            os.rmdir(path)
        else:
            os.unlink(path)


def create_parents(path: str) -> None:
    """Create the missing parents of a path with mode 0755, whatever the umask of the session is."""
    parent = os.path.dirname(path)
    if os.path.isdir(parent):
        return
    create_parents(parent)
    os.mkdir(parent, 0o700)
    os.chmod(parent, 0o755)


def status(path: str) -> os.stat_result | None:
    """Return the status of the path without following links; None if it is missing."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def attributes(live: os.stat_result) -> Attributes:
    """Return the current attributes of the path."""
    return Attributes(stat.S_IMODE(live.st_mode), live.st_uid, live.st_gid)


def wanted_attributes(spec: dict[str, Any], check: bool) -> Attributes:
    """Return the declared attributes; the owner may be missing in check mode only."""
    if not re.fullmatch(r"[0-7]{4}", spec["mode"]):
        raise PathError(f'{spec["path"]}: mode {spec["mode"]!r} is not four octal digits - quote it, like "0644"')
    uid = os.geteuid() if spec["owner"] is None else number_of(spec["owner"], "user")
    gid = os.getegid() if spec["group"] is None else number_of(spec["group"], "group")
    if not check and (uid is None or gid is None):
        missing = f"user {spec['owner']}" if uid is None else f"group {spec['group']}"
        raise PathError(f"{spec['path']}: {missing} does not exist - install its package or create it before this task")
    return Attributes(int(spec["mode"], 8), uid, gid)


def number_of(name: str, kind: str) -> int | None:
    """Return the id of a user or group; None if it does not exist."""
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid if kind == "user" else grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def set_attributes(path: str, wanted: Attributes) -> None:
    """Set ownership, then the mode: changing ownership clears the setuid and setgid bits."""
    live = os.lstat(path)
    assert wanted.uid is not None
    assert wanted.gid is not None
    if (live.st_uid, live.st_gid) != (wanted.uid, wanted.gid):
        os.chown(path, wanted.uid, wanted.gid)
    os.chmod(path, wanted.mode)


def put_in_place(sibling: str, path: str, content: bytes, wanted: Attributes) -> None:
    """Rename the sibling over the path, or rewrite a path that is a mount point."""
    try:
        os.replace(sibling, path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        with open(path, "wb") as stream:
            stream.write(content)
        set_attributes(path, wanted)
    if has_selinux_policy():  # a renamed file keeps the label of the temporary file; untested on a system with SELinux labels
        subprocess.run(("restorecon", path), check=False)


def has_selinux_policy() -> bool:
    """Return whether SELinux labels files. A kernel with the LSM and no policy, Debian's with apparmor=0, has the file system only."""
    if not os.path.exists(SELINUX):
        return False
    with contextlib.suppress(OSError):
        return read(OWN_LABEL).count(b":") >= 2
    return False


def remove_if_there(path: str) -> None:
    """Delete a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def read(path: str) -> bytes:
    """Return the bytes of the file."""
    with open(path, "rb") as stream:
        return stream.read()


def wanted_bytes(spec: dict[str, Any]) -> bytes:
    """Return the declared bytes of a file."""
    if not spec["base64"]:
        return str(spec["content"]).encode()
    try:
        return base64.b64decode(spec["content"], validate=True)
    except ValueError:
        raise PathError(f"{spec['path']}: content is not valid base64 - encode it, or remove `base64: true`") from None


def shown_change(
    spec: dict[str, Any], live: os.stat_result | None, present: bytes | None, content: bytes, wanted: Attributes
) -> tuple[str, str]:
    """Return the diff, without sensitive content."""
    if present == content and live is not None:
        return f"{attributes(live)}\n", f"{wanted}\n"
    if spec["sensitive"]:
        return "(sensitive)\n", "(sensitive, altered)\n"
    if live is not None and present is None:
        return "(not a regular file)\n", shown(content)
    return shown(present or b""), shown(content)


def shown(content: bytes) -> str:
    """Return the text for a diff."""
    if len(content) > LARGEST_DIFF:
        return f"({len(content)} bytes)\n"
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"(binary, {len(content)} bytes)\n"
