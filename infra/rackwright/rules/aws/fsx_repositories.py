"""Buckets that appear as folders of an FSx file system.

Source of every limit that names none: CreateDataRepositoryAssociation of the FSx API (botocore 1.44.5, 2026-11-20).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath
from typing import Final

from rackwright.model.storage.fsx import DataRepository
from rackwright.rules.aws.fsx import lustres
from rackwright.rules.registry import RuleContext, Violation, rule

_MOST: Final = 8
"""Data repository associations of a file system (FSx API reference: CreateDataRepositoryAssociation)."""
_ADDRESS: Final = re.compile(r"\d+\.\d+\.\d+\.\d+")
_TAKEN: Final = ("xn--", "sthree-", "amzn-s3-demo-")
_TAKEN_ENDS: Final = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def _each(case: RuleContext) -> Iterator[tuple[str, DataRepository]]:
    for path, declared in lustres(case):
        for index, repository in enumerate(declared.data_repositories):
            yield f"{path}.data_repositories[{index}]", repository


@rule("repository-count")
def repository_count(case: RuleContext) -> Iterator[Violation]:
    """A file system has at most eight."""
    for path, declared in lustres(case):
        if len(declared.data_repositories) > _MOST:
            hint = f"use at most {_MOST}: link a common prefix, or use another file system"
            yield Violation(f"{path}.data_repositories", f"{len(declared.data_repositories)} buckets", hint)


@rule("repository-folders")
def repository_folders(case: RuleContext) -> Iterator[Violation]:
    """Two buckets cannot share a folder, and their folders cannot be nested; `/` is the whole file system."""
    for path, declared in lustres(case):
        folders = [PurePosixPath(repository.folder) for repository in declared.data_repositories]
        for (_, one), (index, other) in combinations(enumerate(folders), 2):
            if one == other or one in other.parents or other in one.parents:
                yield Violation(
                    f"{path}.data_repositories[{index}].folder", f"{other} overlaps {one} of another bucket", "use folders side by side"
                )


@rule("duplicate-data-repository")
def duplicate_data_repository(case: RuleContext) -> Iterator[Violation]:
    """A bucket, or a part of it, can be only one folder."""
    for path, declared in lustres(case):
        for (_, one), (index, other) in combinations(enumerate(declared.data_repositories), 2):
            if (one.bucket, one.prefix) == (other.bucket, other.prefix):
                cause = f"s3://{other.bucket}/{other.prefix} is already linked to {one.folder}"
                yield Violation(f"{path}.data_repositories[{index}]", cause, "link it once, or another `prefix`")


@rule("repository-bucket")
def repository_bucket(case: RuleContext) -> Iterator[Violation]:
    """S3 does not permit such bucket names (Amazon S3 user guide: General purpose bucket naming rules)."""
    for path, repository in _each(case):
        name = repository.bucket
        if ".." in name or _ADDRESS.fullmatch(name) or name.startswith(_TAKEN) or name.endswith(_TAKEN_ENDS):
            yield Violation(
                f"{path}.bucket", f"`{name}` is not a valid bucket name", "enter the bucket's name, without s3:// and without a prefix"
            )


@rule("repository-events")
def repository_events(case: RuleContext) -> Iterator[Violation]:
    """AWS accepts each kind of event once."""
    for path, repository in _each(case):
        for key in ("imports", "exports"):
            events = getattr(repository, key)
            if len(set(events)) < len(events):
                yield Violation(f"{path}.{key}", "lists an event twice", "list NEW, CHANGED and DELETED at most once each")
