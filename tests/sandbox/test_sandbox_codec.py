"""Values cross exactly or not at all; whatever bytes arrive, decoding is bounded and raises nothing but Malformed."""

import collections
import datetime
import decimal
import fractions
import json
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_rewards.sandbox import _codec, _decode, _judge, _plan
from rlvr_rewards.sandbox._jobs import Result

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.complex_numbers(allow_nan=False), st.decimals(allow_nan=False, allow_infinity=True), st.fractions(),
    st.dates(), st.datetimes(), st.timedeltas(), st.builds(range, st.integers(), st.integers()),
)  # fmt: skip
PLAIN = (
    type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range,
    collections.deque, collections.OrderedDict, collections.Counter, decimal.Decimal, fractions.Fraction,
    datetime.datetime, datetime.date, datetime.timedelta, type({}.keys()), type({}.values()), type({}.items()),
)  # fmt: skip
HASHABLE = st.recursive(SCALARS, lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner)), max_leaves=8)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner), st.dictionaries(HASHABLE, inner), st.sets(HASHABLE),
        st.builds(collections.deque, st.lists(inner)),
        st.builds(collections.OrderedDict, st.dictionaries(HASHABLE, inner)),
    ),
    max_leaves=20,
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(list("ifbBcrDFTtszdoq"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*"ifbBcrDFTtszdoCqhKRMNS", "std", "e", "v"]), inner, max_size=2),
    ),
    max_leaves=30,
)  # fmt: skip


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_plain_values_come_back_equal_and_of_the_same_type(value: Any) -> None:
    back = _decode.decode(_decode.loads(_codec.dumps(_codec.encode(value))))
    assert back == value
    assert type(back) is type(value)


@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=200).map(str.encode), JSON.map(lambda node: json.dumps(node).encode())
    )
)
@settings(max_examples=400, deadline=None)
def test_bytes_are_a_plain_value_or_malformed_and_nothing_else(data: bytes) -> None:
    try:
        found = _decode.decode(_decode.loads(data))
    except _decode.Malformed as refused:
        found = refused
    assert type(found) in {_decode.Malformed, *PLAIN}


@pytest.mark.parametrize("data", [b'{"c":[]}', b'{"c":[1]}', b'{"F":[]}', b'{"D":[]}', b'{"r":[]}', b'{"T":[]}'])
def test_a_tag_with_too_few_parts_is_malformed(data: bytes) -> None:
    with pytest.raises(_decode.Malformed):
        _decode.decode(_decode.loads(data))


@given(st.lists(st.one_of(st.binary(max_size=60), JSON.map(lambda node: json.dumps(node).encode())), max_size=5))
@settings(max_examples=300, deadline=None)
def test_no_answer_raises_in_the_trainer(parts: list[bytes]) -> None:
    data = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    plan = _plan.plan(
        "assert", "assert f(1) == {1: (2, 'x')}\nassert sorted(f(2)) == [3]\nassert abs(f(1) - 2.0) < 1e-3"
    )
    assert plan.checks is not None
    for junk in (data, data[:-1], data + b"\xff\xff\xff\xff"):
        outcome = _judge._judge_values(Result("ok", 0, junk), plan.checks)
        assert outcome is None or outcome.passed < outcome.total
        assert _judge._judge_reports(Result("ok", 0, junk), plan).how != "passed"


HOSTILE = {
    "deep lists": b"[" * 100_000,
    "deep tags": b'{"t":[' * 5_000 + b"]}" * 5_000,
    "an integer of 200,000 digits": b"1" * 200_000,
    "NaN": b"NaN",
    "infinity": b"-Infinity",
    "a bare float": b"1.5",
    "1e999": b"1e999",
    "two tags": b'{"i":"0x1","f":"0x1p0"}',
    "an unknown tag": b'{"!":1}',
    "bad hexadecimal": b'{"i":"zz"}',
    "a bad float": b'{"f":"1,5"}',
    "an unhashable member": b'{"s":[[1]]}',
    "an unhashable key": b'{"d":[[[1],2]]}',
    "a pair that is none": b'{"d":[[1,2,3]]}',
    "junk": bytes(range(256)),
    "signalling NaN": b'{"D":[0,"1","N"]}',
    "a Decimal of a huge exponent": b'{"D":[0,"1",999999999999]}',
    "a Fraction of a million digits": b'{"F":["0x' + b"f" * 1_000_000 + b'","0x3"]}',
    "a Fraction over zero": b'{"F":["0x1","0x0"]}',
    "a range without step": b'{"r":["0x0","0x1","0x0"]}',
    "a date that is none": b'{"T":["date",[2020,13,40]]}',
    "a type that is none": b'{"T":["eval",[1]]}',
    "a negative deque": b'{"q":[[1],-5]}',
    "an unknown view": b'{"V":["eval",[1]]}',
    "items that are no pairs": b'{"V":["dict_items",[1]]}',
    "bad base64": b'{"b":"***"}',
    "a handle": b'{"h":[0,[0,null],null,{}]}',
    "members of colliding hashes": json.dumps({"s": [{"i": hex(k * (2**61 - 1))} for k in range(1, 9_000)]}).encode(),
    "floats of colliding hashes": json.dumps({"s": [{"f": (2.0**-k).hex()} for k in range(1_000)] * 5}).encode(),
    "many sets of colliding hashes": json.dumps(
        [{"s": [{"i": hex(k * (2**61 - 1))} for k in range(1, 1_990)]}] * 70
    ).encode(),
    "long tuples of colliding hashes": json.dumps(
        {"s": [{"t": ["ab"] * 100 + [{"i": hex(k * (2**61 - 1))}]} for k in range(1, 1_990)]}
    ).encode(),
    "colliding sets of colliding hashes": json.dumps(
        {"s": [{"z": [{"i": hex(k * (2**61 - 1))} for k in (*range(1, 90), 1_000 + 8 * n)]} for n in range(1_500)]}
    ).encode(),
    "more items than allowed": b"[" + b"0," * 600_000 + b"0]",
    "more bytes than allowed": b'"' + b"x" * (5 << 20) + b'"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused_quickly(name: str) -> None:
    started = time.process_time()
    with pytest.raises(_decode.Malformed):
        _decode.decode(_decode.loads(HOSTILE[name]))
    assert time.process_time() - started < 2.0


def test_sets_nested_deeply_are_no_attack_by_their_depth() -> None:
    value: Any = frozenset({False, True, b"", range(0), decimal.Decimal("Infinity"), range(1), None})
    for _ in range(30):
        value = frozenset({value, (None, value)}) if len(str(value)) < 5_000 else frozenset({value})
    mapping = {None: None, False: None, (None, None): None, value: None}
    assert _decode.decode(_decode.loads(_codec.dumps(_codec.encode(mapping)))) == mapping


def test_many_honest_floats_in_sets_are_no_attack() -> None:
    points = {(x / 7, x / 3, -x / 11) for x in range(1_900)}
    sets = [points, {frozenset((x, x + 1, x + 2)) for x in range(1_900)}, {float(x): "y" for x in range(1_900)}]
    assert _decode.decode(_decode.loads(_codec.dumps(_codec.encode(sets)))) == sets


SLOW_TO_JUDGE = {
    "assert list(f(1)) == [1]": range(10**12),
    "assert tuple(f(1)) == (1,)": range(10**12),
    "assert sorted(f(1)) == [1]": range(10**30),
    "assert set(f(1)) == {1}": range(10**12),
    "assert 2.5 in f(1)": range(10**12),
    "assert 'x' not in f(1)": range(0, -(10**12), -1),
    "assert sorted(f(1)) == [1, 2]": [decimal.Decimal(1), 1 << 15_000_000],
    "assert f(1) == f(2)": [decimal.Decimal(1), 1 << 15_000_000],
    "assert f(1) < f(2)": [{1: [decimal.Decimal(1)]}, 1 << 15_000_000],
}


@pytest.mark.parametrize("tests", SLOW_TO_JUDGE)
def test_what_could_hold_up_the_trainer_is_left_to_a_process_with_limits(tests: str) -> None:
    checks = _plan.plan("assert", tests).checks
    assert checks
    value = SLOW_TO_JUDGE[tests]
    values = value if len(checks[0].calls) == 2 else [value]
    data = b""
    for node in (None, *map(_codec.encode, values)):
        frame = _codec.dumps({"v": node})
        data += len(frame).to_bytes(4, "little") + frame
    assert _judge._judge_values(Result("ok", 0, data), checks) is None


def test_a_set_of_colliding_members_is_not_built_in_the_trainer() -> None:
    (check,) = _plan.plan("assert", "assert set(f(1)) == {1}").checks or ()
    frame = _codec.dumps({"v": _codec.encode([k * (2**61 - 1) for k in range(2, 60_000)])})
    started = time.process_time()
    assert _judge._why_not([frame], check, "") == "Malformed"
    assert time.process_time() - started < 2.0
    assert _judge._why_not([_codec.dumps({"v": [1, 1]})], check, "") is None


def test_what_is_not_plain_is_refused_and_what_is_too_large_too() -> None:
    deep: list[Any] = []
    for _ in range(_codec.MAX_DEPTH + 5):
        deep = [deep]
    for value in (
        object(),
        len,
        type,
        iter([]),
        deep,
        "x" * (_codec.MAX_BYTES + 1),
        datetime.datetime.now(datetime.UTC),
    ):
        with pytest.raises(_codec.Unsupported):
            _codec.encode(value)


def test_views_of_dictionaries_keep_their_kind() -> None:
    for view in ({"a": 1}.keys(), {"a": 1}.items()):
        back = _decode.decode(_decode.loads(_codec.dumps(_codec.encode(view))))
        assert back == view
        assert type(back) is type(view)
    back = _decode.decode(_codec.encode({"a": 1, "b": 1}.values()))
    assert list(back) == [1, 1]


def test_only_the_builtin_content_of_a_subclass_counts() -> None:
    class Liar(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            return iter([7, 7])

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    class Number(int):
        def __add__(self, other: Any) -> int:
            return 99

    assert _codec.base_value(Liar([1, 2])) == [1, 2]
    assert type(_codec.base_value(Number(3))) is int
    assert _codec.base_value(Number(3)) == 3


def test_special_numbers_keep_their_meaning() -> None:
    for value in (decimal.Decimal("-Infinity"), fractions.Fraction(-7, 3), -0.0, 5e-324, 2**200):
        back = _decode.decode(_decode.loads(_codec.dumps(_codec.encode(value))))
        assert back == value
        assert str(back) == str(value)
    back = _decode.decode(_decode.loads(_codec.dumps(_codec.encode([float("nan"), decimal.Decimal("NaN")]))))
    assert math.isnan(back[0])
    assert back[1].is_nan()
