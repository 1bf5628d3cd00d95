"""Disks, buckets and Lustre file systems."""

from __future__ import annotations

import zlib
from typing import Any, Final

from standins.aws.account import Account
from standins.aws.kind import ResourceType, Unsupported, chosen, ec2, fill, listed, removed, single
from standins.aws.naming import Autoname
from standins.aws.state import Properties
from standins.aws.tags import BucketTags, Described, ListedTags, Tags

_LUSTRE: Final = "aws:fsx/lustreFileSystem:LustreFileSystem"
_WHOLE: Final = frozenset({"storageCapacity", "storageType", "subnetIds", "securityGroupIds", "kmsKeyId", "fileSystemTypeVersion"})
"""Inputs of a file system that are no part of its Lustre configuration."""


def _change_volume(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    asked = chosen(news, "size", "type", "iops", "throughput")
    account.call("ec2", "ModifyVolume", VolumeId=ident, **fill(account, KINDS["aws:ebs/volume:Volume"], "ModifyVolume", asked))


def _attach(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("ec2", "AttachVolume", **fill(account, kind, "AttachVolume", inputs))
    named = f"{inputs['deviceName']}-{inputs['instanceId']}-{inputs['volumeId']}-"
    return f"vai-{zlib.crc32(named.encode())}"


def _attachment(account: Account, ident: str, inputs: Properties) -> Described | None:
    for volume in account.call("ec2", "DescribeVolumes", VolumeIds=[inputs["volumeId"]])["Volumes"]:
        for found in volume["Attachments"]:
            if found["InstanceId"] == inputs["instanceId"] and found["Device"] == inputs["deviceName"]:
                return dict(found)
    return None


def _detach(account: Account, ident: str, inputs: Properties) -> None:
    if _attachment(account, ident, inputs) is not None:
        account.call("ec2", "DetachVolume", VolumeId=inputs["volumeId"], InstanceId=inputs["instanceId"], Device=inputs["deviceName"])


def _make_bucket(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    where = {} if account.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": account.region}}
    account.call("s3", "CreateBucket", **fill(account, kind, "CreateBucket", inputs), **where)
    return str(inputs["bucket"])


def _bucket(account: Account, ident: str, inputs: Properties) -> Described | None:
    account.call("s3", "HeadBucket", Bucket=ident)
    return {"Bucket": ident}


def _bucket_outs(account: Account, ident: str, described: Described, inputs: Properties) -> Properties:
    return {
        "arn": f"arn:aws:s3:::{ident}",
        "bucketDomainName": f"{ident}.s3.amazonaws.com",
        "bucketRegionalDomainName": f"{ident}.s3.{account.region}.amazonaws.com",
        "bucketRegion": account.region,
    }


def _drop_bucket(account: Account, ident: str, inputs: Properties) -> None:
    if inputs.get("forceDestroy"):
        for page in account.client("s3").get_paginator("list_object_versions").paginate(Bucket=ident):
            for one in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                account.call("s3", "DeleteObject", Bucket=ident, Key=one["Key"], VersionId=one["VersionId"])
    account.call("s3", "DeleteBucket", Bucket=ident)


def _bucket_part(token: str, noun: str, within: str, *names: str, removable: bool = True) -> ResourceType:
    """Return the type of a bucket's setting that is a resource of its own: put, get, delete; `names` are its inputs."""

    def put(account: Account, ident: str, news: Properties, olds: Properties) -> None:
        rest = chosen(news, *names)
        nested = rest.get("versioningConfiguration", rest)
        account.call("s3", f"Put{noun}", Bucket=ident, **{within: fill(account, KINDS[token], f"Put{noun}", nested, within=within)})

    def make(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
        put(account, inputs["bucket"], inputs, {})
        return str(inputs["bucket"])

    def look(account: Account, ident: str, inputs: Properties) -> Described | None:
        found = account.call("s3", f"Get{noun}", Bucket=ident)
        described: Described = found.get(within, found)
        return {"versioningConfiguration": described} if "versioningConfiguration" in inputs else described

    def drop(account: Account, ident: str, inputs: Properties) -> None:
        if removable:
            account.call("s3", f"Delete{noun}", Bucket=ident)

    return ResourceType(
        token=token,
        service="s3",
        make=make,
        look=look,
        drop=drop,
        force=frozenset({"bucket"}),
        settle=dict.fromkeys(names, put),
    )


def _make_policy(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    account.call("s3", "PutBucketPolicy", **fill(account, kind, "PutBucketPolicy", inputs))
    return str(inputs["bucket"])


def _set_policy(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    _make_policy(account, KINDS["aws:s3/bucketPolicy:BucketPolicy"], {"bucket": ident, "policy": news["policy"]}, {})


def _make_lustre(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    whole = fill(account, kind, "CreateFileSystem", {key: value for key, value in inputs.items() if key in _WHOLE})
    rest = {key: value for key, value in inputs.items() if key not in _WHOLE}
    lustre = fill(account, kind, "CreateFileSystem", {"lustreConfiguration": rest})
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    made = account.call("fsx", "CreateFileSystem", FileSystemType="LUSTRE", **whole, **lustre, **tagged)
    return str(made["FileSystem"]["FileSystemId"])


def _lustre(account: Account, ident: str, inputs: Properties) -> Described | None:
    found = account.call("fsx", "DescribeFileSystems", FileSystemIds=[ident])["FileSystems"][0]
    if found["Lifecycle"] == "FAILED":
        raise Unsupported(f"{ident} has failed")
    return {**found.get("LustreConfiguration", {}), **found}


def _change_lustre(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    changed = {key: value for key, value in news.items() if value != olds.get(key) and key in _CHANGEABLE}
    whole = {key: value for key, value in changed.items() if key in _WHOLE}
    rest = {key: value for key, value in changed.items() if key not in _WHOLE}
    asked = {**whole, **({"lustreConfiguration": rest} if rest else {})}
    account.call("fsx", "UpdateFileSystem", FileSystemId=ident, **fill(account, KINDS[_LUSTRE], "UpdateFileSystem", asked))


def _shrinks(olds: Properties, news: Properties) -> frozenset[str]:
    """Return the capacity if it shrinks: in place it can only grow."""
    return frozenset({"storageCapacity"}) if (news.get("storageCapacity") or 0) < (olds.get("storageCapacity") or 0) else frozenset()


_CHANGEABLE: Final = (
    "storageCapacity", "perUnitStorageThroughput", "throughputCapacity", "dataCompressionType", "weeklyMaintenanceStartTime",
    "autoImportPolicy", "dailyAutomaticBackupStartTime", "automaticBackupRetentionDays", "logConfiguration", "rootSquashConfiguration",
    "metadataConfiguration",
)  # fmt: skip
_SUBJECT: Final = "ResourceARN"


def _change_association(account: Account, ident: str, news: Properties, olds: Properties) -> None:
    asked = chosen(news, "importedFileChunkSize", "s3")
    kind = KINDS["aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"]
    account.call(
        "fsx", "UpdateDataRepositoryAssociation", AssociationId=ident, **fill(account, kind, "UpdateDataRepositoryAssociation", asked)
    )


def _make_association(account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
    tagged = kind.tags.at_creation(tags) if kind.tags else {}
    asked: dict[str, Any] = fill(account, kind, "CreateDataRepositoryAssociation", inputs)
    return str(account.call("fsx", "CreateDataRepositoryAssociation", **asked, **tagged)["Association"]["AssociationId"])


def _drop_association(account: Account, ident: str, inputs: Properties) -> None:
    deleted = bool(inputs.get("deleteDataInFilesystem"))
    account.call("fsx", "DeleteDataRepositoryAssociation", AssociationId=ident, DeleteDataInFileSystem=deleted)


_FSX_TAGS: Final = ListedTags("fsx", lambda ident, described: {_SUBJECT: described[_SUBJECT]})

_ROWS: Final = (
    ec2(
        "aws:ebs/volume:Volume",
        "Volume",
        tag="volume",
        make=lambda account, kind, inputs, tags: str(
            account.call("ec2", "CreateVolume", **fill(account, kind, "CreateVolume", inputs), **kind.tags.at_creation(tags))["VolumeId"]
        ),
        force=frozenset({"availabilityZone", "encrypted", "kmsKeyId", "snapshotId", "multiAttachEnabled", "outpostArn"}),
        settle=dict.fromkeys(("size", "type", "iops", "throughput"), _change_volume),
        local=frozenset({"finalSnapshot"}),
        renames={"type": "VolumeType"},
        outs=lambda account, ident, described, inputs: {"arn": account.arn("ec2", f"volume/{ident}")},
    ),
    ec2(
        "aws:ec2/volumeAttachment:VolumeAttachment",
        "Volume",
        make=_attach,
        look=_attachment,
        drop=_detach,
        force=frozenset({"deviceName", "instanceId", "volumeId"}),
        local=frozenset({"forceDetach", "skipDestroy", "stopInstanceBeforeDetaching"}),
        renames={"deviceName": "Device"},
    ),
    ResourceType(
        token="aws:s3/bucket:Bucket",
        service="s3",
        make=_make_bucket,
        look=_bucket,
        drop=_drop_bucket,
        force=frozenset({"bucket", "bucketPrefix", "objectLockEnabled"}),
        local=frozenset({"forceDestroy", "bucketPrefix"}),
        renames={"objectLockEnabled": "ObjectLockEnabledForBucket"},
        outs=_bucket_outs,
        tags=BucketTags(),
        autoname=Autoname("bucket", longest=63, prefix="bucketPrefix", lower=True),
    ),
    _bucket_part(
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "PublicAccessBlock",
        "PublicAccessBlockConfiguration",
        "blockPublicAcls",
        "blockPublicPolicy",
        "ignorePublicAcls",
        "restrictPublicBuckets",
    ),
    _bucket_part(
        "aws:s3/bucketVersioning:BucketVersioning",
        "BucketVersioning",
        "VersioningConfiguration",
        "versioningConfiguration",
        removable=False,
    ),
    _bucket_part(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "BucketEncryption",
        "ServerSideEncryptionConfiguration",
        "rules",
    ),
    ResourceType(
        token="aws:s3/bucketPolicy:BucketPolicy",
        service="s3",
        make=_make_policy,
        look=single("s3", "GetBucketPolicy", "Bucket"),
        drop=removed("s3", "DeleteBucketPolicy", "Bucket"),
        force=frozenset({"bucket"}),
        settle={"policy": _set_policy},
    ),
    ResourceType(
        token=_LUSTRE,
        service="fsx",
        make=_make_lustre,
        look=_lustre,
        drop=removed("fsx", "DeleteFileSystem", "FileSystemId"),
        force=frozenset(
            {
                "deploymentType", "driveCacheType", "exportPath", "importPath", "importedFileChunkSize", "kmsKeyId", "securityGroupIds",
                "storageType", "subnetIds", "backupId", "efaEnabled", "fileSystemTypeVersion", "copyTagsToBackups",
            }
        ),
        settle=dict.fromkeys(_CHANGEABLE, _change_lustre),
        local=frozenset({"skipFinalBackup", "finalBackupTags"}),
        renames={"arn": "ResourceARN"},
        tags=_FSX_TAGS,
        replaced_if=_shrinks,
    ),
    ResourceType(
        token="aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        service="fsx",
        make=_make_association,
        look=listed("fsx", "DescribeDataRepositoryAssociations", "AssociationIds", "Associations"),
        drop=_drop_association,
        force=frozenset({"fileSystemId", "fileSystemPath", "dataRepositoryPath", "batchImportMetaDataOnCreate"}),
        settle=dict.fromkeys(("importedFileChunkSize", "s3"), _change_association),
        local=frozenset({"deleteDataInFilesystem"}),
        renames={"arn": "ResourceARN"},
        tags=_FSX_TAGS,
    ),
)  # fmt: skip
KINDS: Final = {kind.token: kind for kind in _ROWS}
