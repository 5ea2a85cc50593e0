"""Whatever the files hold, a set comes out or problems do; nothing else is raised."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.loading.loader import parse_policies
from policies.loading.policy_set import PolicySet
from policies.loading.reference import json_schema
from policies.model.problems import PolicyError
from tests.effort import examples
from tests.policies.support import DEFAULT

SCHEMAS = json_schema()["$defs"]
TEXTS = st.text(st.characters(exclude_categories=["C"]), max_size=12) | st.sampled_from(
    [
        "0.500",
        "2",
        "nan",
        "default",
        "none",
        "hami-core",
        "pooled",
        "{index}",
        "{memory_mib}",
        "/a",
        "a/b:1",
        "8Mi",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**16), 10**16) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def keys_of(schema):
    """Keys of a definition and of everything below it, so that random files often hit real keys."""
    found = set(schema.get("properties", ()))
    for part in json.dumps(schema).split("#/$defs/")[1:]:
        found |= keys_of(SCHEMAS[part.partition('"')[0]])
    return found


def documents(kind):
    keys = st.sampled_from(sorted(keys_of(SCHEMAS[kind])))
    values = ANYTHING | st.dictionaries(keys | TEXTS, ANYTHING, max_size=4)
    return st.dictionaries(keys, values, max_size=6).map(
        lambda content: {"name": "x", **content, "kind": kind}
    )


def outcome(files):
    try:
        return parse_policies(files)
    except PolicyError as error:
        return error


@settings(max_examples=examples(200))
@given(st.sampled_from(["Policy", "Limiter", "Queues"]).flatmap(documents))
def test_any_document_is_a_set_or_problems(document):
    content = json.dumps(document, ensure_ascii=False).encode()
    result = outcome({"default.yaml": DEFAULT, "any.yaml": content})
    if isinstance(result, PolicyError):
        assert result.problems
        assert all("\n" not in str(problem) for problem in result.problems)
    else:
        assert isinstance(result, PolicySet)
        assert result.resolve("n", "q", "i").fractions
