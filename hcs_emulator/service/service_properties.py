"""The properties of HcsGetServiceProperties and the settings of HcsModifyServiceSettings: topology, CPU groups,
credential guard instances.
"""

from __future__ import annotations

import base64
import os
import uuid
from typing import Any

from hcs_emulator.service.errors import ERROR_ALREADY_EXISTS, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, HcsError
from hcs_emulator.service.schema.common import newest_minor
from hcs_emulator.service.schema.queries import SERVICE_QUERY
from hcs_emulator.service.schema.service import check_service_modification
from hcs_emulator.service.schema.shapes import check

NO_GROUP = "00000000-0000-0000-0000-000000000000"
_DESCRIPTOR = "D:P(A;;FA;;;SY)(A;;FA;;;BA)"


class ServiceProperties:
    def __init__(self, build: int) -> None:
        self.build = build
        self.cpu_groups: dict[str, dict[str, Any]] = {}
        self.credential_guards: dict[str, dict[str, Any]] = {}

    def query(self, query: Any) -> dict[str, Any]:
        """The properties are in the order of the requested types."""
        if query is None:
            query = {"PropertyTypes": ["Basic"]}
        check(SERVICE_QUERY, query, "Get service properties", self.build)
        getters = {
            "Basic": self._basic,
            "ProcessorTopology": self._topology,
            "CpuGroup": lambda: {"CpuGroups": list(self.cpu_groups.values())},
            "ContainerCredentialGuard": lambda: {"Instances": list(self.credential_guards.values())},
            "QoSCapabilities": lambda: {"ProcessorQoSSupported": False},
            "Memory": self._memory,
        }
        result: dict[str, Any] = {"Properties": [getters[name]() for name in query.get("PropertyTypes", ())]}
        responses = {}
        for name in query.get("PropertyQueries", {}):
            known = {
                "Basic": self._basic,
                "ProcessorTopology": self._topology,
                "ProcessorCapabilities": self._capabilities,
            }.get(name)
            responses[name] = (
                {"Error": {"ErrorMessage": f"no property {name}"}} if known is None else {"Response": known()}
            )
        if responses:
            result["PropertyResponses"] = responses
        return result

    def _basic(self) -> dict[str, Any]:
        return {"SupportedSchemaVersions": [{"Major": 2, "Minor": newest_minor(self.build)}]}

    def _topology(self) -> dict[str, Any]:
        processors = [
            {"LpIndex": index, "NodeNumber": 0, "PackageId": 0, "CoreId": index, "RootVpIndex": index}
            for index in range(os.cpu_count() or 1)
        ]
        return {"LogicalProcessorCount": len(processors), "LogicalProcessors": processors}

    def _memory(self) -> dict[str, Any]:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4096
        return {"MemoryNode": [{"NodeNumber": 0, "TotalMemoryInPages": pages}]}

    def _capabilities(self) -> dict[str, Any]:
        return {
            "ProcessorFeatures": [],
            "XsaveProcessorFeatures": [],
            "CacheLineFlushSize": 64,
            "ImplementedPhysicalAddressBits": 48,
        }

    def modify(self, document: Any) -> None:
        operation, details = check_service_modification(document, self.build)
        {
            "CreateGroup": self._create_group,
            "DeleteGroup": self._delete_group,
            "SetProperty": self._set_property,
            "AddInstance": self._add_instance,
            "RemoveInstance": self._remove_instance,
        }[operation](details)

    def _create_group(self, details: dict[str, Any]) -> None:
        group = details["GroupId"].lower()
        if group in self.cpu_groups:
            raise HcsError(ERROR_ALREADY_EXISTS, f"CPU group {group} exists", data=group)
        processors = details.get("LogicalProcessors", [])
        if any(index >= (os.cpu_count() or 1) for index in processors):
            raise HcsError(ERROR_INVALID_PARAMETER, "a logical processor of the group does not exist", data=group)
        self.cpu_groups[group] = {
            "GroupId": group,
            "Affinity": {
                "LogicalProcessorCount": details.get("LogicalProcessorCount", len(processors)),
                "LogicalProcessors": processors,
            },
            "GroupProperties": [],
            "HypervisorGroupId": len(self.cpu_groups) + 1,
        }

    def _delete_group(self, details: dict[str, Any]) -> None:
        if self.cpu_groups.pop(details["GroupId"].lower(), None) is None:
            raise self._no_group(details)

    def _set_property(self, details: dict[str, Any]) -> None:
        group = self.cpu_groups.get(details["GroupId"].lower())
        if group is None:
            raise self._no_group(details)
        kept = [entry for entry in group["GroupProperties"] if entry["PropertyCode"] != details["PropertyCode"]]
        group["GroupProperties"] = [*kept, {name: details[name] for name in ("PropertyCode", "PropertyValue")}]

    def require_group(self, identifier: str) -> None:
        """A VM can be assigned to an existing group, or removed from its group by the null group."""
        if identifier.lower() not in self.cpu_groups and identifier != NO_GROUP:
            raise self._no_group({"GroupId": identifier})

    def _no_group(self, details: dict[str, Any]) -> HcsError:
        return HcsError(ERROR_NOT_FOUND, f"CPU group {details['GroupId']} does not exist", data=details["GroupId"])

    def _add_instance(self, details: dict[str, Any]) -> None:
        identifier = details["Id"]
        if identifier in self.credential_guards:
            raise HcsError(ERROR_ALREADY_EXISTS, f"a credential guard instance {identifier} exists", data=identifier)
        endpoint = uuid.uuid4()
        self.credential_guards[identifier] = {
            "Id": identifier,
            "CredentialGuard": {
                "Cookie": base64.b64encode(endpoint.bytes).decode(),
                "RpcEndpoint": f"ccg-{endpoint.hex[:8]}",
                "Transport": details["Transport"],
                "CredentialSpec": details["CredentialSpec"],
            },
            "HvSocketConfig": {
                "ServiceId": str(endpoint),
                "ServiceConfig": {"BindSecurityDescriptor": _DESCRIPTOR, "ConnectSecurityDescriptor": _DESCRIPTOR},
            },
        }

    def _remove_instance(self, details: dict[str, Any]) -> None:
        if self.credential_guards.pop(details["Id"], None) is None:
            raise HcsError(ERROR_NOT_FOUND, f"no credential guard instance {details['Id']}", data=details["Id"])
