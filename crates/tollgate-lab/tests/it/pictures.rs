//! Pictures are what they were: `UPDATE_GOLDEN=1` writes them anew, to be looked at.

use tollgate_lab::picture::{
    Chart, Column, Figure, Ranking, Report, Screen, Series, Shape, Table, Tone, Unit, panels,
};

use crate::shown::golden;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}&\"'";

fn bars() -> Chart {
    let admitted = [5.0, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 1.0];
    let refused = [0.0, 4.0, 4.0, 4.0, 0.0, 3.0, 4.0, 9.0];
    let points = |values: [f64; 8]| values.into_iter().enumerate().map(|(x, y)| (x as f64, y));
    Chart::new("5 a second against 1/s burst 5")
        .describe("the burst passes, then one a second")
        .x(Unit::Seconds, "time")
        .y(Unit::Count, "requests a second")
        .with(Series::bars("admitted", points(admitted)).tone(Tone::Good))
        .with(Series::bars("refused", points(refused)).tone(Tone::Bad))
        .level(1.0, "1/s")
        .band(4.0, 5.0, "quiet")
}

fn lines() -> Chart {
    let falling = (0..=20u32).map(|x| (f64::from(x), f64::from(20 - x)));
    let toothed = (0..=20u32).map(|x| (f64::from(x), f64::from(x % 5)));
    Chart::new("remaining")
        .y(Unit::Count, "units")
        .with(Series::new("bucket", Shape::Area, falling).tone(Tone::Nth(0)))
        .with(Series::new("window", Shape::Steps, toothed).tone(Tone::Nth(1)))
}

fn ranking() -> Ranking {
    Ranking::new("hit hardest", Unit::Count)
        .part("admitted", Tone::Good)
        .part("refused", Tone::Bad)
        .row("203.0.113.9", [1_200.0, 4_000.0])
        .row(HOSTILE, [900.0, 1_300.0])
}

#[test]
fn charts_are_drawn_as_they_were() {
    golden("bars.svg", &bars().svg());
    golden("lines.svg", &lines().svg());
    golden("panels.svg", &panels("both", &[bars(), lines()], 2));
    golden("ranking.svg", &ranking().svg());
}

#[test]
fn charts_of_characters_are_drawn_as_they_were() {
    golden("bars.txt", &bars().terminal(Screen::plain(60)));
    golden("lines.txt", &lines().terminal(Screen::plain(60)));
    golden("lines-coloured.txt", &lines().terminal(Screen::coloured(60)));
    golden("ranking.txt", &ranking().terminal(Screen::plain(60)));
}

#[test]
fn no_line_is_wider_than_the_screen() {
    for columns in [0, 30, 47, 80, 1_000] {
        let screen = Screen::plain(columns);
        let drawn = [bars().terminal(screen), lines().terminal(screen), ranking().terminal(screen)];
        for line in drawn.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= columns.clamp(30, 160), "{columns}: {line}");
        }
    }
}

#[test]
fn a_hostile_name_is_text_everywhere() {
    let chart = Chart::new(HOSTILE)
        .describe(HOSTILE)
        .x(Unit::Count, HOSTILE)
        .y(Unit::Count, HOSTILE)
        .with(Series::bars(HOSTILE, [(0.0, 1.0)]))
        .level(1.0, HOSTILE)
        .band(0.0, 1.0, HOSTILE);
    let table = Table::new([(HOSTILE, Column::Words)]).caption(HOSTILE).row([HOSTILE]);
    let page = Report::new(HOSTILE, HOSTILE)
        .heading(HOSTILE)
        .text(HOSTILE)
        .verbatim(HOSTILE)
        .figures([Figure::new(HOSTILE, HOSTILE).note(HOSTILE)])
        .charts([chart.clone()])
        .rankings([ranking()])
        .table(&table)
        .html();
    for markup in [chart.svg(), ranking().svg(), page] {
        assert!(!markup.contains("<img") && !markup.contains(['\u{1b}', '\u{202e}']), "{markup}");
        assert!(markup.contains("&lt;img"), "{markup}");
    }
    let screen = Screen::plain(80);
    for text in [chart.terminal(screen), ranking().terminal(screen), table.text()] {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}

#[test]
fn nothing_absurd_breaks_a_picture() {
    let values = [f64::NAN, f64::INFINITY, f64::MIN, f64::MAX, -1.0, 0.0, 1e-300, 1e17];
    let points = || values.into_iter().flat_map(|x| values.map(|y| (x, y)));
    for unit in [Unit::Count, Unit::Seconds, Unit::Moment, Unit::Percent] {
        for shape in [Shape::Line, Shape::Area, Shape::Steps, Shape::Bars] {
            let chart = Chart::new("absurd")
                .x(unit, "")
                .y(unit, "")
                .with(Series::new("points", shape, points()))
                .with(Series::new("none", shape, []))
                .level(f64::NAN, "")
                .band(f64::NAN, 1.0, "");
            let drawn = chart.svg() + &chart.terminal(Screen::plain(40));
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{unit:?} {shape:?} {drawn}");
        }
    }
    assert!(Chart::new("empty").svg().ends_with("</svg>\n"));
    assert!(!Chart::new("empty").terminal(Screen::plain(40)).is_empty());
    assert!(Ranking::new("empty", Unit::Count).row("", [f64::NAN]).svg().contains("</svg>"));
}

#[test]
fn a_page_asks_nobody_for_anything() {
    let page = Report::new("title", "lead").charts([bars(), lines()]).rankings([ranking()]).html();
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "<script", "src=", "url(", "@import", "style=\""] {
        assert!(!outside.replace("&lt;img src=x", "").contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"), "{page}");
}
