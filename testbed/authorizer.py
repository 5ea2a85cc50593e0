"""Asking the API server's authorizer what a service account may."""

from testbed.api import Api

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def may(api: Api, account: tuple[str, str], verb: str, resource: tuple[str, str], **where: str) -> bool:
    """Return whether a service account may.

    Args:
        api: Client of the API server.
        account: Namespace and name of the service account.
        verb: Such as "list".
        resource: API group, and resource with its subresource: ("", "pods/status").
        where: `namespace` and `name`; all where they are left out.
    """
    home, name = account
    group, path = resource
    kind, _, subresource = path.partition("/")
    spec = {
        "user": f"system:serviceaccount:{home}:{name}",
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
        "resourceAttributes": {
            "group": group,
            "resource": kind,
            "subresource": subresource,
            "verb": verb,
            **where,
        },
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    allowed: bool = api.call("POST", REVIEWS, review)["status"]["allowed"]
    return allowed
