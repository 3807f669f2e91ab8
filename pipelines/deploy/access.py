"""What components may do in their cluster: annotate their own pod, and nothing else."""

from __future__ import annotations

from .kubernetes import Naming, Object

PART = "node"
POD_NAME = "authentication.kubernetes.io/pod-name"


def access(naming: Naming) -> list[Object]:
    """The components' service account, and its right to say what ending a pod would cost."""
    return [account(naming), role(naming), binding(naming), *guard(naming)]


def account(naming: Naming) -> Object:
    """Who the components' pods are."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": naming.metadata(PART),
        "automountServiceAccountToken": False,
    }


def role(naming: Naming) -> Object:
    """The right to patch pods, which a role can't narrow to the pod itself: see `guard`."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": naming.metadata(PART),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
    }


def binding(naming: Naming) -> Object:
    """The role is the account's."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": naming.metadata(PART),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": naming.name(PART),
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": naming.name(PART),
                "namespace": naming.settings.namespace,
            }
        ],
    }


def guard(naming: Naming) -> list[Object]:
    """An admission policy: the account patches the pod that its token was issued to, and there the
    annotations alone. Without it a pod that was broken into could change the images of others.
    """
    namespace = naming.settings.namespace
    user = f"system:serviceaccount:{namespace}:{naming.name(PART)}"
    metadata: Object = {"name": f"{namespace}-{naming.name(PART)}", "labels": naming.labels(PART)}
    rules = [
        {
            "expression": (
                f"'{POD_NAME}' in request.userInfo.extra"
                f" && request.userInfo.extra['{POD_NAME}'] == [object.metadata.name]"
            ),
            "message": "a component may patch its own pod only",
        },
        {
            "expression": (
                "object.spec == oldObject.spec"
                " && object.metadata.?labels == oldObject.metadata.?labels"
                " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences"
                " && object.metadata.?finalizers == oldObject.metadata.?finalizers"
            ),
            "message": "a component may change the annotations of its pod only",
        },
    ]
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            },
            "matchConditions": [
                {"name": "by-a-component", "expression": f"request.userInfo.username == '{user}'"}
            ],
            "validations": rules,
        },
    }
    bound: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }
    return [policy, bound]
