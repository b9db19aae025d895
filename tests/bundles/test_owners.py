"""What bundles own nobody else may write: at it, below it or above it."""

from __future__ import annotations

import pytest

from doorward.bundles.owners import OwnedError, Owners


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("a", "b"), 'path a/b is owned by bundle "one"'),
        (("a", "b", "c"), 'path a/b/c is owned by bundle "one"'),
        (("a",), 'path a is owned by bundle "one"'),
        (("x", "y z"), 'path x/y%20z is owned by bundle "two"'),
        ((), "can't write to document root with bundle roots configured"),
    ],
)
def test_what_a_bundle_owns_is_refused(path: tuple[str, ...], message: str) -> None:
    with pytest.raises(OwnedError, match=message.replace("'", ".")):
        Owners({"one": ["a/b"], "two": ["x"]}).check(path)


def test_what_no_bundle_owns_may_be_written() -> None:
    owners = Owners({"one": ["a/b"]})
    for path in (("a", "c"), ("b",), ("ab",)):
        owners.check(path)
    Owners({}).check(())


def test_a_bundle_may_own_everything() -> None:
    with pytest.raises(OwnedError, match='all paths owned by bundle "one"'):
        Owners({"one": [""]}).check(("a",))
