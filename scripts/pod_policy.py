"""The admission policy of deploy/ that rejects pods with wrong values of annotations, from the shim's table of them.
`make docs` runs this.

The shim, as Microsoft's, ignores such a value with a warning in containerd's log, which users of a cluster do not see.
"""

from __future__ import annotations

from pathlib import Path

from shim.oci.annotations.schema import (
    APPLIED,
    FLAG,
    NUMBER,
    NUMBER_64,
    UINT64,
    Annotation,
    Kind,
)
from shim.oci.annotations.table import rows

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "containerd-shim-runhcs" / "templates" / "podpolicy.yaml"
KUSTOMIZE = ROOT / "deploy" / "kustomize" / "base" / "podpolicy.yaml"

_VALUE = "variables.annotations[key]"
# Kubernetes accepts no longer name of an annotation, without its prefix. Longer ones come from runtime options only.
LONGEST_NAME = 63


def _up_to(maximum: int) -> str:
    if maximum == UINT64:  # CEL compares texts of the same length as numbers
        return f'{_VALUE}.matches("^[0-9]{{1,20}}$") && (size({_VALUE}) < 20 || {_VALUE} <= "{maximum}")'
    return f'{_VALUE}.matches("^[0-9]{{1,18}}$") && int({_VALUE}) <= {maximum}'


# Name of the variable -> the kind in the table, which values are right (CEL), and how to say that.
CHECKS: dict[str, tuple[Kind, str, str]] = {
    "wrongFlags": (
        FLAG,
        f'{_VALUE} in ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]',
        "true or false",
    ),
    "wrongNumbers": (NUMBER, _up_to(NUMBER.maximum), f"a whole number up to {NUMBER.maximum}, without a unit"),
    "wrongNumbers64": (
        NUMBER_64, _up_to(NUMBER_64.maximum), f"a whole number up to {NUMBER_64.maximum}, without a unit"
    ),
}  # fmt: skip


def files() -> dict[Path, str]:
    head = "# Made by `make docs` from the tables in shim/oci: change those.\n"
    labels = '  labels:\n    {{- include "runhcs.labels" . | nindent 4 }}\n'
    chart = _policy('{{ include "runhcs.name" . }}-pods', labels)
    return {
        CHART: f"{head}{{{{- if .Values.validateAnnotations }}}}\n{chart}{{{{- end }}}}\n",
        KUSTOMIZE: head + _policy("containerd-shim-runhcs-pods", ""),
    }


def keys(kind: Kind) -> list[Annotation]:
    """Annotations that pods can have and whose values have this kind."""
    found = [row for row in rows().values() if row.kind is kind and row.outcome == APPLIED]
    return sorted(row for row in found if len(row.rpartition("/")[2]) <= LONGEST_NAME)


def _policy(name: str, labels: str) -> str:
    variables, validations = [], []
    for variable, (kind, is_right, words) in CHECKS.items():
        listed = ",\n".join(f'        "{key}"' for key in keys(kind))
        variables.append(
            f"    - name: {variable}\n      expression: >-\n        variables.annotations.filter(key, key in [\n"
            f"{listed}\n        ] && !({is_right}))\n"
        )
        validations.append(
            f"    - expression: size(variables.{variable}) == 0\n      messageExpression: >-\n"
            f'        "annotation " + variables.{variable}.join(", ") + " has a wrong value: use {words}"\n'
        )
    return f"""\
# Rejects pods with a wrong value of an annotation, which the shim would ignore.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
{labels}spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [pods]
  matchConditions:
    - name: has-annotations-of-the-shim
      expression: >-
        has(object.metadata.annotations) && object.metadata.annotations.exists(key,
        key.startsWith("io.microsoft.") || key.startsWith("microsoft.com/"))
  variables:
    - name: annotations
      expression: object.metadata.annotations
{"".join(variables)}  validations:
{"".join(validations)}---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
{labels}spec:
  policyName: {name}
  validationActions: [Deny]
"""
