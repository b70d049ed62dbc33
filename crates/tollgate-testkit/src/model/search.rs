//! Finding a number by trying.

/// The largest cost up to `most` that `fits`; if one fits, so do all smaller ones. Zero if none.
pub(super) fn largest(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    if fits(most) {
        return most;
    }
    let (mut fitting, mut too_much) = (0, most);
    while too_much - fitting > 1 {
        let middle = fitting + (too_much - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_much = middle }
    }
    fitting
}

/// The first moment from `now` on at which `holds`, which it does for good once it does.
pub(super) fn first_moment(now: u128, holds: impl Fn(u128) -> bool) -> u128 {
    if holds(now) {
        return now;
    }
    let mut reach = 1;
    while !holds(now + reach) {
        reach *= 4;
        assert!(reach < 1 << 80, "no limit keeps anybody waiting so long");
    }
    let (mut before, mut after) = (now + reach / 4, now + reach);
    if reach == 1 {
        before = now;
    }
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if holds(middle) { after = middle } else { before = middle }
    }
    after
}
