"""Where a prefix ends, against the definition of a prefix."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fathom.store.keys import prefix_end, range_start

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
edges = st.text(st.sampled_from("/a\0\ud7ff\ue000\uffff\U0010ffff"), max_size=4)


@given(texts | edges, texts | edges)
@example("/\ud7ff", "/\ue000")
@example("\U0010ffff", "\U0010ffffx")
def test_a_key_is_in_a_prefixs_range_exactly_if_it_starts_with_it(prefix: str, key: str) -> None:
    end = prefix_end(prefix)
    for one in (key, prefix + key):
        assert (one >= prefix and (end is None or one < end)) == one.startswith(prefix)


@given(texts | edges, texts | edges, texts | edges)
def test_a_page_starts_at_the_first_key_after_the_last(prefix: str, after: str, key: str) -> None:
    expected = key >= prefix and key > after
    assert (key >= range_start(prefix, after)) == expected


@given(texts | edges, texts | edges)
def test_code_points_order_as_their_encodings_do(one: str, other: str) -> None:
    assert (one < other) == (one.encode() < other.encode())
