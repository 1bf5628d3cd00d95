"""FSx with a life cycle, a mount name, updates, and data repository associations."""

from __future__ import annotations

import json
import time
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.ec2.models import ec2_backends
from moto.fsx.exceptions import FileSystemNotFound
from moto.fsx.models import FileSystem
from moto.fsx.responses import FSxResponse
from moto.moto_api._internal import mock_random as random

from standins.moto_server.store import put, shelf

_to_dict = FileSystem.to_dict
_describe = FSxResponse.describe_file_systems
_create = FSxResponse.create_file_system


def install() -> None:
    """Complete moto's FSx."""
    put(FileSystem, to_dict)
    put(
        FSxResponse,
        create_file_system,
        describe_file_systems,
        update_file_system,
        create_data_repository_association,
        describe_data_repository_associations,
        update_data_repository_association,
        delete_data_repository_association,
    )


def to_dict(self: FileSystem) -> dict[str, Any]:
    """Return a file system as FSx describes it: available at once."""
    shown = _to_dict(self)
    backend = self.backend
    subnets = ec2_backends[backend.account_id][backend.region_name].subnets
    vpcs = [one.vpc_id for zone in subnets.values() for one in zone.values() if one.id in self.subnet_ids]
    lustre = shown.get("LustreConfiguration")
    return {
        **shown,
        "OwnerId": backend.account_id,
        "CreationTime": self.__dict__.setdefault("created", time.time()),
        "Lifecycle": "AVAILABLE",
        "VpcId": vpcs[0] if vpcs else "",
        "NetworkInterfaceIds": [f"eni-{self.file_system_id[3:]}"],
        **({"FileSystemTypeVersion": version} if (version := getattr(self, "version", None)) else {}),
        **({"LustreConfiguration": {**lustre, "MountName": self.file_system_id[3:]}} if lustre is not None else {}),
    }


def create_file_system(self: FSxResponse) -> str:
    """Implement CreateFileSystem, which records the file system's version."""
    params = json.loads(self.body)
    answer = json.loads(_create(self))
    made: Any = self.fsx_backend.file_systems[answer["FileSystem"]["FileSystemId"]]
    made.version = params.get("FileSystemTypeVersion")
    return json.dumps({"FileSystem": made.to_dict()})


def describe_file_systems(self: FSxResponse) -> str:
    """Implement DescribeFileSystems; an unknown id is an error."""
    for ident in json.loads(self.body).get("FileSystemIds") or []:
        if ident not in self.fsx_backend.file_systems:
            raise FileSystemNotFound(ident)
    return _describe(self)


def update_file_system(self: FSxResponse) -> str:
    """Implement UpdateFileSystem: capacity, storage type and the Lustre configuration."""
    params = json.loads(self.body)
    found = self.fsx_backend.file_systems.get(params["FileSystemId"])
    if found is None:
        raise FileSystemNotFound(params["FileSystemId"])
    found.storage_capacity = params.get("StorageCapacity", found.storage_capacity)
    found.lustre_configuration = {**(found.lustre_configuration or {}), **params.get("LustreConfiguration", {})}
    return json.dumps({"FileSystem": found.to_dict()})


def create_data_repository_association(self: FSxResponse) -> str:
    """Implement CreateDataRepositoryAssociation; available at once."""
    params = json.loads(self.body)
    backend = self.fsx_backend
    if params["FileSystemId"] not in backend.file_systems:
        raise FileSystemNotFound(params["FileSystemId"])
    ident = f"dra-{random.get_random_hex(17)}"
    made = {
        **{key: value for key, value in params.items() if key not in ("Tags", "ClientRequestToken")},
        "AssociationId": ident,
        "ResourceARN": f"arn:aws:fsx:{backend.region_name}:{backend.account_id}:association/{params['FileSystemId']}/{ident}",
        "Lifecycle": "AVAILABLE",
        "CreationTime": time.time(),
    }
    shelf(backend, "associations")[ident] = made
    if params.get("Tags"):
        backend.tagger.tag_resource(made["ResourceARN"], params["Tags"])
    return json.dumps({"Association": _shown(self, made)})


def describe_data_repository_associations(self: FSxResponse) -> str:
    """Implement DescribeDataRepositoryAssociations; an unknown id is an error."""
    known = shelf(self.fsx_backend, "associations")
    found = [_association(self, ident) for ident in json.loads(self.body).get("AssociationIds") or known]
    return json.dumps({"Associations": [_shown(self, one) for one in found]})


def update_data_repository_association(self: FSxResponse) -> str:
    """Implement UpdateDataRepositoryAssociation: chunk size and the S3 policies."""
    params = json.loads(self.body)
    found = _association(self, params["AssociationId"])
    found |= {key: params[key] for key in ("ImportedFileChunkSize", "S3") if key in params}
    return json.dumps({"Association": _shown(self, found)})


def delete_data_repository_association(self: FSxResponse) -> str:
    """Implement DeleteDataRepositoryAssociation; deleted at once."""
    params = json.loads(self.body)
    found = _association(self, params["AssociationId"])
    del shelf(self.fsx_backend, "associations")[found["AssociationId"]]
    deleted = params.get("DeleteDataInFileSystem", False)
    return json.dumps({"AssociationId": found["AssociationId"], "Lifecycle": "DELETING", "DeleteDataInFileSystem": deleted})


def _association(self: FSxResponse, ident: str) -> dict[str, Any]:
    found = shelf(self.fsx_backend, "associations").get(ident)
    if found is None:
        raise JsonRESTError("DataRepositoryAssociationNotFound", f"{ident} does not exist")
    return found


def _shown(self: FSxResponse, found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "Tags": self.fsx_backend.list_tags_for_resource(found["ResourceARN"])}
