"""Typical mistakes, each refused at the call that made it, by a sentence that names the place and the fix.

The checker is checked too: with messages that lack the name, the fix, or come late, and with mistakes that leave
something behind.
"""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import vkgrad as vg
from tests.mistakes import files, networks, running, tensors, training
from tests.mistakes.mistake import Mistake, faults, mistake
from vkgrad import elsewhere
from vkgrad.errors import ShapeError
from vkgrad.spelling import KEYWORDS, _accepted, listed, meant

TABLES = (tensors, networks, training, files, running)
MISTAKES = [case for table in TABLES for case in table.MISTAKES]


def name_of(case: Mistake) -> str:
    return case.what.replace(" ", "-")


@pytest.mark.parametrize("case", MISTAKES, ids=name_of)
def test_mistake_is_refused_where_it_is_made(case: Mistake, tmp_path: Path) -> None:
    assert faults(case, tmp_path) == []


@pytest.mark.device
@pytest.mark.parametrize("case", running.BETWEEN_DEVICES, ids=name_of)
def test_mistake_with_two_devices(case: Mistake, tmp_path: Path) -> None:
    assert faults(case, tmp_path) == []


def test_there_are_enough_of_them() -> None:
    names = [case.what for case in MISTAKES]
    assert len(names) == len(set(names)) >= 150
    assert all(case.names and case.fix for case in MISTAKES)


# ---- the checker is checked
GOOD = "scale: factor (3,) does not fit (2,); pass one factor for each element"
SCALE = """
from vkgrad.errors import ShapeError

def scale(x, factor):
    raise ShapeError({text!r})

scale(2, 3)  # <-
"""


def refused(text: str, code: str = SCALE, **other: object) -> Mistake:
    """A mistake that is refused by `text`."""
    return mistake(
        "made up", code.replace("{text!r}", repr(text)), ShapeError, ("scale", "(3,)"), "one factor for each", **other
    )  # type: ignore[arg-type]


# Raised inside a library's file, as ours are, so that the last line of the user's is the call.
LIBRARY = SCALE.replace(
    "def scale(x, factor):\n    raise ShapeError({text!r})",
    'made = "def scale(x, factor): raise ShapeError({})".format(repr({text!r}))\n'
    'exec(compile(made, "<library>", "exec"), globals())',
)
LATE = LIBRARY.replace("scale(2, 3)  # <-", "later = lambda: scale(2, 3)\nx = 1  # <-\nlater()")


def test_checker_takes_a_good_message(tmp_path: Path) -> None:
    assert faults(refused(GOOD, LIBRARY), tmp_path) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD.replace("scale", "a function"), "does not name 'scale'"),
        (GOOD.replace("(3,)", "it"), r"does not name '\(3,\)'"),
        (GOOD.partition(";")[0], "does not say 'one factor for each'"),
        (GOOD + ". It is so. It stays so. Really", "more than two sentences"),
        (GOOD + " and so on" * 40, "characters, at most 300"),
        (GOOD + "\nTraceback", "not a line"),
        (GOOD + " (<leaf float32[3]>)", "a word from inside"),
        (GOOD + " in _scaled", "a word from inside"),
        (GOOD + " at 0x7f00aa12", "a word from inside"),
    ],
)
def test_checker_finds_a_bad_message(text: str, fault: str, tmp_path: Path) -> None:
    assert any(re.search(fault, found) for found in faults(refused(text, LIBRARY), tmp_path))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (LATE, "raised at line"),
        (SCALE, "raised at line"),  # in a function of the user's own file, behind the marked call
        ("scale = 1  # <-", "nothing was raised"),
        (LIBRARY.replace("ShapeError(", "ValueError("), "not a ShapeError"),
        (
            LIBRARY.replace("scale(2, 3)  # <-", "try:\n    1 / 0\nexcept ZeroDivisionError:\n    scale(2, 3)  # <-"),
            "shows another error before it",
        ),
        (
            LIBRARY.replace("scale(2, 3)", "vg.kept_by_mistake = vg.ones((2,)) * vg.ones((2,)); scale(2, 3)"),
            "left tensors behind",
        ),
        (
            LIBRARY.replace(
                "scale(2, 3)", "vg.kept_by_mistake = vg.no_grad(); vg.kept_by_mistake.__enter__(); scale(2, 3)"
            ),
            "a mode has changed",
        ),
    ],
    ids=["late", "inside", "never", "class", "chain", "left", "mode"],
)
def test_checker_finds_a_bad_raise(code: str, fault: str, tmp_path: Path) -> None:
    from vkgrad import history

    try:
        found = faults(refused(GOOD, code), tmp_path)
    finally:
        vars(vg).pop("kept_by_mistake", None)
        history._recording.set(True)
    assert any(fault in each for each in found), found


def test_checker_finds_what_goes_wrong_afterwards(tmp_path: Path) -> None:
    assert "afterwards: AssertionError: gone" in faults(refused(GOOD, LIBRARY, then="assert False, 'gone'"), tmp_path)


def test_checker_finds_what_the_host_computed(tmp_path: Path) -> None:
    import builtins

    from vkgrad.counters import count_host

    builtins.count_host_now = lambda: count_host("exp", 1, "float64", 8)  # type: ignore[attr-defined]
    try:
        found = faults(refused(GOOD, LIBRARY.replace("scale(2, 3)", "count_host_now(); scale(2, 3)")), tmp_path)
    finally:
        del builtins.count_host_now  # type: ignore[attr-defined]
    assert "1 operations were computed on the host" in found


# ---- suggestions
CALL = re.compile(r"\b(?:vg\.)(?!errors)([A-Za-z_][\w.]*)")
METHOD = re.compile(r"\bx\.([a-z_]+)\b")


TABLES_OF_NAMES = (
    elsewhere.FUNCTIONS,
    elsewhere.METHODS,
    elsewhere.MODULES,
    elsewhere.RANDOM,
    elsewhere.DATA,
    elsewhere.LAYERS,
)


@pytest.mark.parametrize("table", TABLES_OF_NAMES)
def test_what_is_suggested_is_there(table: dict[str, str]) -> None:
    for name, suggestion in table.items():
        for path in CALL.findall(suggestion):
            found: object = vg
            for part in path.rstrip(".").split("."):
                found = getattr(found, part)
        for method in METHOD.findall(suggestion):
            assert hasattr(vg.Tensor, method), f"{name}: {suggestion}"


def test_what_is_suggested_for_is_not_there() -> None:
    assert [name for name in elsewhere.FUNCTIONS if hasattr(vg, name)] == []
    assert [name for name in elsewhere.METHODS if hasattr(vg.Tensor, name)] == []
    assert [name for name in elsewhere.MODULES if hasattr(vg.nn.Module, name)] == []
    assert [name for name in elsewhere.DATA if hasattr(vg.data, name)] == []
    assert [name for name in elsewhere.RANDOM if hasattr(vg.random, name)] == []
    assert [name for name in elsewhere.LAYERS if hasattr(vg.nn, name)] == []


FACES = (vg, vg.nn, vg.nn.functional, vg.optim, vg.data, vg.random, vg.linalg, vg.fft, vg.metrics, vg.functions)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_function_answers_misspelled_keywords(face: ModuleType) -> None:
    """And is the one that its home module has, so that it travels between processes."""
    for name in getattr(face, "__all__", dir(face)):
        function = getattr(face, name)
        if not inspect.isfunction(function) or not function.__module__.startswith("vkgrad.functions"):
            continue
        if face is not vg.nn.functional:  # whose functions take `inplace` too, and are no other module's
            assert pickle.loads(pickle.dumps(function)) is function, name
        if None not in (accepted := _accepted(function) or {None}):
            with pytest.raises(TypeError, match=f"there is no argument 'no_such'; .*|{name}"):
                function(no_such=accepted)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        face.no_such_thing  # noqa: B018


def test_nearest_name() -> None:
    assert meant("sofmax", ["softmax", "sigmoid"]) == "did you mean 'softmax'?"
    assert meant("dim", ["axis", "keepdims"], KEYWORDS) == "did you mean 'axis'?"
    assert meant("acuracy", ["Accuracy", "accuracy"]) == "did you mean 'accuracy'?"
    assert meant("conv2D", ["Conv2d", "conv2d"]) == "did you mean 'conv2d'?"
    assert meant("zebra", ["softmax", "sigmoid"]) == ""
    assert listed("abcdef", 3) == "a, b, c and 3 more"
    assert listed(()) == "nothing"


def test_asking_for_what_is_not_there_stays_cheap_and_quiet() -> None:
    """Libraries probe tensors with `hasattr`; nothing is looked for then, and dunder names are never suggested for."""
    assert not hasattr(vg.ones(2), "iloc")
    assert not hasattr(vg.nn.Linear(2, 1), "__torch_function__")
    assert getattr(vg, "__wrapped__", None) is None
    with pytest.raises(AttributeError, match=re.escape("Tensor has no attribute '_data'") + "$"):
        vg.ones(2)._data  # noqa: B018


def test_property_that_lacks_something_says_what() -> None:
    class Net(vg.nn.Module):
        @property
        def width(self) -> int:
            return self.linaer.out_features

        def __init__(self) -> None:
            self.linear = vg.nn.Linear(2, 3)

    with pytest.raises(AttributeError, match="Net has no attribute 'linaer'; did you mean 'linear'"):
        Net().width  # noqa: B018


def test_what_may_stand_where_a_parameter_was() -> None:
    """Another parameter, nothing, and what a transform differentiates by."""
    layer = vg.nn.Linear(2, 1)
    layer.weight = vg.nn.parameter(vg.ones((1, 2)))
    layer.bias = None

    def output(weight: vg.Tensor) -> vg.Tensor:
        inner = vg.nn.Linear(2, 1, bias=False)
        inner.weight = weight
        return inner(vg.ones((3, 2))).sum()

    assert vg.grad(output)(layer.weight).tolist() == [[3.0, 3.0]]
    assert vg.jit(output)(vg.ones((1, 2))).item() == 6.0
    with pytest.raises(vg.errors.ArgumentError, match=r"Linear\.weight is a parameter"):
        layer.weight = np.ones((1, 2))


def test_errors_travel_between_processes() -> None:
    with pytest.raises(ShapeError) as caught:
        vg.nn.Sequential(vg.nn.Linear(2, 1))(vg.ones((3, 4)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(AttributeError) as missing:
        vg.sofmax  # noqa: B018
    assert str(pickle.loads(pickle.dumps(missing.value))) == str(missing.value)
