//! Figures as a decision carries them: seven numbers and what they mean, so that a decision is one
//! cache line. A batch of 256 is then half of the nearest cache, where its keys' states are wanted.

use super::figures::{BucketFigures, CounterFigures, Figures, PlainFigures};

/// Of whatever form: the limit, the cost, and five more.
pub(super) type FigureWords = [u64; 7];

/// What the numbers of a decision mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FigureForm {
    Bucket,
    /// A bucket whose units leave one by one.
    Queue,
    Counter,
    Plain,
}

impl Figures {
    /// All but whether it is allowed, which a decision says itself.
    #[inline(always)]
    pub(super) fn into_numbers(self) -> (FigureForm, FigureWords) {
        match self {
            Figures::Bucket(figures) => {
                let BucketFigures { capacity, cost, parts_per_nano, parts_per_unit, .. } = figures;
                let [low, high] = halves(figures.owed);
                let form = if figures.shapes { FigureForm::Queue } else { FigureForm::Bucket };
                let rate = [parts_per_nano, parts_per_unit];
                (form, [capacity, cost, rate[0], rate[1], low, high, figures.behind])
            }
            Figures::Counter(figures) => {
                let CounterFigures { limit, cost, current, previous, into, window, .. } = figures;
                (
                    FigureForm::Counter,
                    [limit, cost, current, previous, into, window, figures.behind],
                )
            }
            Figures::Plain(figures) => {
                let PlainFigures { limit, cost, remaining, retry_after, .. } = figures;
                let PlainFigures { reset_after, next_after, delay, .. } = figures;
                (
                    FigureForm::Plain,
                    [limit, cost, remaining, retry_after, reset_after, next_after, delay],
                )
            }
        }
    }

    #[inline]
    pub(super) fn from_numbers(allowed: bool, form: FigureForm, numbers: FigureWords) -> Figures {
        let [limit, cost, a, b, c, d, e] = numbers;
        match form {
            FigureForm::Bucket | FigureForm::Queue => Figures::Bucket(BucketFigures {
                allowed,
                shapes: form == FigureForm::Queue,
                owed: u128::from(c) | u128::from(d) << 64,
                cost,
                capacity: limit,
                parts_per_nano: a,
                parts_per_unit: b,
                behind: e,
            }),
            FigureForm::Counter => Figures::Counter(CounterFigures {
                allowed,
                limit,
                cost,
                current: a,
                previous: b,
                into: c,
                window: d,
                behind: e,
            }),
            FigureForm::Plain => Figures::Plain(PlainFigures {
                allowed,
                limit,
                cost,
                remaining: a,
                retry_after: b,
                reset_after: c,
                next_after: d,
                delay: e,
            }),
        }
    }
}

/// The low and the high half.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "each half is what it is cut to")]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}
