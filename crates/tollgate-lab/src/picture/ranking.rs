//! Who is first: bars that lie, one a row.

use super::chart::{Tone, Unit};
use super::svg::{STYLE, WIDTH, draw_ranking, open_picture, ranking_height};

/// Rows of bars, each of the same parts: the clients that were refused most.
///
/// ```
/// use tollgate_lab::picture::{Ranking, Screen, Tone, Unit};
///
/// let ranking = Ranking::new("hit hardest", Unit::Count)
///     .part("admitted", Tone::Good)
///     .part("refused", Tone::Bad)
///     .row("203.0.113.9", [120.0, 4_000.0])
///     .row("198.51.100.1", [90.0, 3.0]);
/// println!("{}", ranking.terminal(Screen::plain(60)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) parts: Vec<(String, Tone)>,
    pub(super) rows: Vec<(String, Vec<f64>)>,
}

impl Ranking {
    /// A ranking without rows.
    pub fn new(title: impl Into<String>, unit: Unit) -> Ranking {
        Ranking { title: title.into(), unit, parts: Vec::new(), rows: Vec::new() }
    }

    /// What each bar is made of, from the left.
    #[must_use]
    pub fn part(mut self, name: impl Into<String>, tone: Tone) -> Ranking {
        self.parts.push((name.into(), tone));
        self
    }

    /// One more row, with a value for each part. What is no number counts as zero.
    #[must_use]
    pub fn row(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
    ) -> Ranking {
        let sane = |value: f64| if value.is_finite() { value.clamp(0.0, 1e18) } else { 0.0 };
        self.rows.push((name.into(), values.into_iter().map(sane).collect()));
        self
    }

    /// The ranking as a file of its own, with its style in it.
    pub fn svg(&self) -> String {
        let height = ranking_height(self);
        let paper = format!(
            "<style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
        );
        self.picture(&paper) + "\n"
    }

    /// The ranking as a part of a page that has [`STYLE`] among its styles.
    pub fn svg_inline(&self) -> String {
        self.picture("")
    }

    fn picture(&self, before: &str) -> String {
        let mut svg = String::new();
        let names: Vec<&str> = self.rows.iter().map(|(name, _)| name.as_str()).collect();
        open_picture(&mut svg, (WIDTH, ranking_height(self)), &self.title, &names.join(", "));
        svg.push_str(before);
        draw_ranking(&mut svg, self);
        svg + "</svg>"
    }

    /// The longest bar; never zero.
    pub(super) fn largest(&self) -> f64 {
        let totals = self.rows.iter().map(|(_, values)| values.iter().sum::<f64>());
        let most = totals.fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    }
}
