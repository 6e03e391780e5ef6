"""Versions are ordered like tuples of whole numbers, and compiled code follows its rules whatever the numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpujob.catalog.devices.architecture import GENERIC, Fit, fit, may_pass_for, pretended, runs_on
from gpujob.catalog.images.versions import at_least, plain, release, satisfies

numbers = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(tuple)
suffixes = st.sampled_from(["", "a0", "a0+4fdf77b940", "+cu130", "+rocm7.0", "rc1", ".post1", "-rc.1", "+git94c6e04"])
capabilities = st.tuples(st.integers(3, 20), st.integers(0, 9))
gfx_names = st.sampled_from(sorted({name for members in GENERIC.values() for name in members} | {"gfx908", "gfx90a"}))


def text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@given(numbers, suffixes)
def test_a_suffix_does_not_count(version: tuple[int, ...], suffix: str) -> None:
    written = text(version) + suffix
    assert release(written)[: len(version)] == version
    assert satisfies(written, f"=={text(version)}")


@given(numbers, numbers)
def test_versions_are_ordered_like_their_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    verdict, longer = at_least(text(one), text(other)), len(one) >= len(plain(other))
    padded = (*one, 0, 0, 0)[:4] >= (*other, 0, 0, 0)[:4]
    assert verdict is padded or (verdict is None and not longer and one == other[: len(one)])
    assert satisfies(text(one), f">={text(other)}") is padded


@given(numbers, numbers)
def test_two_versions_cannot_both_be_older(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert not (at_least(text(one), text(other)) is False and at_least(text(other), text(one)) is False)


@given(numbers, st.integers(0, 3))
def test_zeros_at_the_end_change_nothing(version: tuple[int, ...], zeros: int) -> None:
    longer = version + (0,) * zeros
    assert plain(longer) == plain(version)
    assert at_least(text(longer), text(version)) is True


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_can_be_asked(one: str, other: str) -> None:
    assert at_least(one, other) in (True, False, None)
    assert runs_on(one, [other]) in (True, False)
    assert (pretended(one) or "gfx").startswith("gfx")


@given(capabilities, capabilities)
def test_machine_code_runs_within_its_major_capability_and_upwards(
    device: tuple[int, int], code: tuple[int, int]
) -> None:
    tegra = {(5, 3), (6, 2), (7, 2), (8, 7)}
    expected = device[0] == code[0] and device >= code and (device == code or not tegra & {device, code})
    assert runs_on(text(device), [text(code)]) is expected
    assert runs_on(text(device), [f"{text(code)}a"]) is (device == code)
    assert runs_on(text(device), [f"{text(code)}+PTX"]) is (device >= code)
    assert (fit(text(device), [f"{text(code)}f+PTX"]) is Fit.NATIVE) is expected


@given(capabilities, st.lists(capabilities, max_size=6), st.sampled_from(["", "a", "f", "+PTX", "f+PTX"]))
def test_more_code_never_runs_on_less(device: tuple[int, int], codes: list[tuple[int, int]], suffix: str) -> None:
    compiled = [text(code) + suffix for code in codes]
    fits = [fit(text(device), compiled[:count]) for count in range(len(compiled) + 1)]
    assert fits == sorted(fits)
    assert fits[-1] is fit(text(device), reversed(compiled))


@given(gfx_names, gfx_names)
def test_gfx_code_is_for_its_own_architecture_or_the_family_of_a_generic_one(device: str, code: str) -> None:
    assert runs_on(device, [code]) is (device == code)
    assert [name for name in GENERIC if runs_on(device, [name])] == [n for n, m in GENERIC.items() if device in m]
    assert may_pass_for(device, code) is may_pass_for(code, device)
    assert not (may_pass_for(device, code) and (device.startswith("gfx9") or code.startswith("gfx9")))
