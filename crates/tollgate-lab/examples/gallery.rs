//! Every kind of picture, to look at: `cargo run -p tollgate-lab --example gallery FOLDER`.

use std::path::Path;

use tollgate_lab::picture::{
    Chart, Column, Figure, Ranking, Report, Screen, Series, Shape, Table, Tone, Unit, panels,
};

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/gallery".to_owned());
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let (bars, lines, ranking) = (bars(), lines(), ranking());
    for screen in [Screen::plain(72), Screen::coloured(72)] {
        println!(
            "{}\n{}\n{}",
            bars.terminal(screen),
            lines.terminal(screen),
            ranking.terminal(screen)
        );
    }
    std::fs::write(folder.join("bars.svg"), bars.svg())?;
    std::fs::write(folder.join("lines.svg"), lines.svg())?;
    std::fs::write(folder.join("ranking.svg"), ranking.svg())?;
    let both = [bars.clone(), lines.clone()];
    std::fs::write(folder.join("panels.svg"), panels("both", &both, 2))?;
    let table = Table::new([("limit", Column::Words), ("admitted", Column::Figures)])
        .caption("what passed")
        .row(["100/min burst 20", "119"])
        .row(["<img src=x onerror=alert(1)>", "100"]);
    let page = Report::new("A gallery", "Every kind of picture there is, to look at.")
        .figures([
            Figure::new("offered", "1,200"),
            Figure::new("admitted", "119").note("9.9%"),
            Figure::new("refused", "1,081").note("90.1%"),
        ])
        .charts(both)
        .heading("Who was hit")
        .rankings([ranking])
        .table(&table)
        .verbatim("tollgate simulate \"100/min\" <file>\n  --html x");
    std::fs::write(folder.join("report.html"), page.html())
}

fn bars() -> Chart {
    let admitted =
        (0..60u32).map(|x| (f64::from(x), f64::from(if x == 0 { 20 } else { 1 + x % 3 })));
    let refused = (0..60u32).map(|x| (f64::from(x), f64::from(if x < 5 { 0 } else { 18 - x % 7 })));
    Chart::new("20 a second against 100/min burst 20")
        .x(Unit::Seconds, "time")
        .y(Unit::Count, "requests a second")
        .with(Series::bars("admitted", admitted).tone(Tone::Good))
        .with(Series::bars("refused", refused).tone(Tone::Bad))
        .level(10.0, "the limit")
        .band(20.0, 30.0, "store away")
}

fn lines() -> Chart {
    let saw = |by: u32| (0..=90u32).map(move |x| (f64::from(x), f64::from((x * by) % 40)));
    Chart::new("remaining")
        .x(Unit::Moment, "")
        .y(Unit::Count, "units")
        .with(Series::new("token bucket", Shape::Area, saw(1)).tone(Tone::Nth(0)))
        .with(Series::line("fixed window", saw(2)).tone(Tone::Nth(1)))
        .with(Series::new("sliding log", Shape::Steps, saw(7)).tone(Tone::Nth(2)))
        .with(Series::line("sliding counter", saw(3)).tone(Tone::Nth(3)))
}

fn ranking() -> Ranking {
    Ranking::new("hit hardest", Unit::Count)
        .part("admitted", Tone::Good)
        .part("refused", Tone::Bad)
        .row("203.0.113.9", [1_200.0, 4_000.0])
        .row("<script>alert(1)</script>", [900.0, 1_300.0])
        .row("198.51.100.1", [90.0, 3.0])
}
