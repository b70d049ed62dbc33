//! What a chart is made of. Plain data: nothing here draws.

/// What the numbers on an axis are, which says how they are written and where its ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// How many: `0`, `500`, `1.5k`, `20M`.
    Count,
    /// A length of time in seconds: `250ms`, `30s`, `1m30s`.
    Seconds,
    /// A moment, in seconds since 1970, written in UTC: `14:05`, `Mar 29`.
    Moment,
    /// Of a hundred: `12.5%`.
    Percent,
}

/// What a series is, which says its colour. The colours can be told apart by the colour-blind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tone {
    /// What passed.
    Good,
    /// What was refused.
    Bad,
    /// What should stand back: what was offered, what was there before.
    Quiet,
    /// What was let through or refused without the store.
    Note,
    /// One of several of a kind, each of its own colour and dashes; after six they begin again.
    Nth(u8),
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// From point to point.
    Line,
    /// As a line, and filled down to zero.
    Area,
    /// Level until the next point: for what changes at once.
    Steps,
    /// Bars that begin at their `x`, each series standing on the one before.
    Bars,
}

/// What is further out than this is not drawn: no traffic has so much of anything.
const FARTHEST: f64 = 1e18;

/// Points with a name. Points that are no numbers, or absurd ones, are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) tone: Tone,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart: series over an axis.
///
/// See the [module](super) for an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) x: (Unit, String),
    pub(super) y: (Unit, String),
    pub(super) series: Vec<Series>,
    pub(super) levels: Vec<(f64, String)>,
    pub(super) bands: Vec<(f64, f64, String)>,
    pub(super) at_least: f64,
    pub(super) span: Option<(f64, f64)>,
}

impl Series {
    /// A series of a shape, in the first colour.
    pub fn new(
        name: impl Into<String>,
        shape: Shape,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let points = points.into_iter().filter(|(x, y)| sane(*x) && sane(*y)).collect();
        Series { name: name.into(), shape, tone: Tone::Nth(0), points }
    }

    /// A line.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Shape::Line, points)
    }

    /// Bars; several series of them stand on each other.
    pub fn bars(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Shape::Bars, points)
    }

    /// The same in another colour.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Series {
        self.tone = tone;
        self
    }
}

impl Chart {
    /// A chart with nothing on it yet.
    pub fn new(title: impl Into<String>) -> Chart {
        Chart {
            title: title.into(),
            description: String::new(),
            x: (Unit::Seconds, String::new()),
            y: (Unit::Count, String::new()),
            series: Vec::new(),
            levels: Vec::new(),
            bands: Vec::new(),
            at_least: 0.0,
            span: None,
        }
    }

    /// What there is to see, in words, for who cannot see it.
    #[must_use]
    pub fn describe(mut self, text: impl Into<String>) -> Chart {
        self.description = text.into();
        self
    }

    /// What the axis along the bottom is.
    #[must_use]
    pub fn x(mut self, unit: Unit, label: impl Into<String>) -> Chart {
        self.x = (unit, label.into());
        self
    }

    /// What the axis up the side is. It begins at zero.
    #[must_use]
    pub fn y(mut self, unit: Unit, label: impl Into<String>) -> Chart {
        self.y = (unit, label.into());
        self
    }

    /// The same with one more series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    /// A line across the whole chart: a limit to hold the series against.
    #[must_use]
    pub fn level(mut self, y: f64, label: impl Into<String>) -> Chart {
        if sane(y) {
            self.levels.push((y, label.into()));
        }
        self
    }

    /// A span of the bottom axis that is marked: an outage.
    #[must_use]
    pub fn band(mut self, from: f64, to: f64, label: impl Into<String>) -> Chart {
        if sane(from) && sane(to) {
            self.bands.push((from.min(to), from.max(to), label.into()));
        }
        self
    }

    /// The side's axis goes up to `y` at least: charts side by side then have one scale.
    #[must_use]
    pub fn at_least(mut self, y: f64) -> Chart {
        self.at_least = if sane(y) { y.max(0.0) } else { 0.0 };
        self
    }

    /// The bottom's axis goes from `from` to `to`, whatever the points are.
    #[must_use]
    pub fn span(mut self, from: f64, to: f64) -> Chart {
        self.span = (sane(from) && sane(to) && from < to).then_some((from, to));
        self
    }

    /// How high the highest point is, bars standing on each other.
    pub fn highest(&self) -> f64 {
        let stacks = self.stacks();
        let bars = stacks.iter().flatten().map(|(_, _, top)| *top);
        let others = self.series.iter().filter(|series| series.shape != Shape::Bars);
        let points = others.flat_map(|series| &series.points).map(|(_, y)| *y);
        let levels = self.levels.iter().map(|(y, _)| *y);
        bars.chain(points).chain(levels).fold(self.at_least, f64::max)
    }

    /// From where to where the bottom's axis goes.
    pub(super) fn extent(&self) -> (f64, f64) {
        if let Some(span) = self.span {
            return span;
        }
        let mut ends: Option<(f64, f64)> = None;
        for series in &self.series {
            let width = if series.shape == Shape::Bars { self.bar_width() } else { 0.0 };
            for (x, _) in &series.points {
                let (from, to) = ends.unwrap_or((*x, *x));
                ends = Some((from.min(*x), to.max(x + width)));
            }
        }
        match ends {
            Some((from, to)) if from < to => (from, to),
            Some((from, _)) => (from, from + 1.0),
            None => (0.0, 1.0),
        }
    }

    /// The distance from one bar to the next: the smallest there is.
    pub(super) fn bar_width(&self) -> f64 {
        let bars = self.series.iter().filter(|series| series.shape == Shape::Bars);
        let gaps = bars.flat_map(|series| series.points.windows(2).map(|two| two[1].0 - two[0].0));
        let least = gaps.filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 1.0 }
    }

    /// For each series its bars as (x, bottom, top); empty for what is no bars. The bars of one
    /// series stand on those of the ones before that have the same number in it.
    pub(super) fn stacks(&self) -> Vec<Vec<(f64, f64, f64)>> {
        let mut heights: Vec<f64> = Vec::new();
        let stack = |series: &Series| {
            if series.shape != Shape::Bars {
                return Vec::new();
            }
            let mut bars = Vec::with_capacity(series.points.len());
            for (index, (x, y)) in series.points.iter().enumerate() {
                if heights.len() <= index {
                    heights.push(0.0);
                }
                let bottom = heights[index];
                heights[index] = bottom + y.max(0.0);
                bars.push((*x, bottom, heights[index]));
            }
            bars
        };
        self.series.iter().map(stack).collect()
    }
}

fn sane(value: f64) -> bool {
    value.abs() <= FARTHEST
}
