"""What several tests of policies need."""

from policies.loading.loader import parse_policies
from policies.model.problems import PolicyError

DEFAULT = b"kind: Policy\nname: default\n"


def policy_set(**files):
    """A set of the default policy and of files given as text, `name=text` meaning name.yaml."""
    return parse_policies(_files(files))


def limiter(name, mode="per-gpu", **files):
    """A limiter by its name, as it is in one mode."""
    policy = f"kind: Policy\nname: a\nnamespaces: [n]\nlimiter: {name}\nresources: {{mode: {mode}}}\n"
    return policy_set(a=policy, **files).resolve("n", None, None).limiter


def problems(**files):
    """The problems of such a set, as text."""
    try:
        parse_policies(_files(files))
    except PolicyError as error:
        return [str(problem) for problem in error.problems]
    return []


def _files(files):
    contents = {f"{name}.yaml": text.encode() for name, text in files.items()}
    return {"default.yaml": DEFAULT} | contents
