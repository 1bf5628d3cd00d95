"""Accounts that operating system images create at their first boot, before any playbook runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rackwright.catalog import rows


@dataclass(frozen=True, slots=True)
class ImageAccount:
    """The first user of an image: cloud-init creates the user, and useradd(8) assigns the first free id, UID_MIN of login.defs(5)."""

    os: str
    """Empty for an account that images of any operating system have."""
    name: str
    """Also the name of the user's own group."""
    uid: int
    gid: int
    source: str


@cache
def image_accounts() -> tuple[ImageAccount, ...]:
    """Return the known accounts of all images."""
    return tuple(ImageAccount(row["os"], row["name"], int(row["uid"]), int(row["gid"]), row["source"]) for row in rows("image_accounts"))


def image_account(os: str, name: str) -> ImageAccount | None:
    """Return the account of this name in the images of an operating system; None if no source names one."""
    named = [account for account in image_accounts() if account.name == name and account.os in (os, "")]
    return max(named, key=lambda account: account.os, default=None)
