import inspect
import re

import pytest

from spear_ray import errors
from spear_ray.errors import InfrastructureError, RequestError, RowError, SpearError

ALL = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, SpearError)]
LEAVES = [kind for kind in ALL if not kind.__subclasses__()]
LINE = re.compile(r"^ {4}(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +(?P<rest>.*))?$", re.MULTILINE)


def drawn() -> dict[str, tuple[int, str]]:
    """Depth and what stands behind each name in the tree of the module's docstring."""
    return {
        found["name"]: (len(found["indent"]) // 4, found["rest"] or "") for found in LINE.finditer(errors.__doc__ or "")
    }


def depth(kind: type) -> int:
    return kind.__mro__.index(SpearError)


def parents() -> dict[str, str]:
    """The parent of each name, as drawn."""
    found, above = {}, {}
    for name, (level, _) in drawn().items():
        above[level] = name
        if level:
            found[name] = above[level - 1]
    return found


def test_the_drawn_tree_holds_exactly_the_classes_that_exist():
    assert set(drawn()) == {kind.__name__ for kind in ALL}
    assert parents() == {kind.__name__: kind.__base__.__name__ for kind in ALL if kind is not SpearError}


@pytest.mark.parametrize("kind", [*LEAVES, errors.PrerequisiteError], ids=lambda kind: kind.__name__)
def test_the_drawn_code_is_the_real_one(kind):
    assert drawn()[kind.__name__][1] == kind.code


def test_every_class_has_a_code_of_its_own():
    codes = [kind.code for kind in ALL]
    assert len(set(codes)) == len(codes)
    assert all("code" in vars(kind) and re.fullmatch(r"[a-z_]+", kind.code) for kind in ALL)


@pytest.mark.parametrize(("branch", "exit_code"), [(RequestError, 2), (InfrastructureError, 3), (RowError, 1)])
def test_exit_code_follows_from_the_branch(branch, exit_code):
    assert {kind.exit_code for kind in ALL if issubclass(kind, branch)} == {exit_code}


def test_every_leaf_stands_in_one_branch():
    for kind in LEAVES:
        assert sum(issubclass(kind, branch) for branch in (RequestError, InfrastructureError, RowError)) == 1


def test_the_root_holds_them_all():
    assert len(ALL) > 25
    assert all(depth(kind) == drawn()[kind.__name__][0] for kind in ALL)
