//! Which pictures of a simulation there are, and what is in them.

use tollgate::Limit;
use tollgate_lab::picture::{Chart, Screen};
use tollgate_lab::simulate::{Picture, Simulated, Simulation};
use tollgate_lab::traffic::Traffic;

use crate::shown::{elements, golden};

fn traffic(texts: &[&str]) -> Vec<Traffic> {
    let read = |text: &&str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    texts.iter().map(read).collect()
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn run(simulation: &Simulation) -> Simulated {
    simulation.run(|_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_was_offered_is_drawn_beside_what_was_tried() {
    // Retries are tries and are not offered again.
    let texts = ["storm 50 for 1min retry every 1s"];
    let simulated = run(&Simulation::of_limits([limit("1/s")]).traffic(traffic(&texts)));
    let chart = &simulated.charts(Picture::Requests)[0];
    let names = |chart: &Chart| -> Vec<String> {
        let texts = elements(&chart.svg(), "text").into_iter();
        texts.filter(|text| ["admitted", "refused", "offered"].contains(&text.as_str())).collect()
    };
    assert_eq!(names(chart), ["admitted", "refused", "offered"]);
    golden("simulate-retries.txt", &chart.terminal(Screen::plain(80)));
    // Where nobody tries again, the bars together are what was offered.
    let simulated = run(&Simulation::of_limits([limit("1/s")]).traffic(traffic(&["steady 2/s"])));
    assert_eq!(names(&simulated.charts(Picture::Requests)[0]), ["admitted", "refused"]);
}

#[test]
fn a_page_has_the_pictures_that_were_asked_for() {
    let simulated = run(&Simulation::of_limits([limit("5/min")]).traffic(traffic(&["steady 1/s"])));
    // The first title is the page's own.
    let shown = |pictures: &[Picture]| {
        let page = simulated.report("tollgate simulate", pictures).html();
        elements(&page, "title").split_off(1)
    };
    let titles = |picture: Picture| -> Vec<String> {
        let charts = simulated.charts(picture);
        charts.iter().map(|chart| elements(&chart.svg(), "title").remove(0)).collect()
    };
    assert_eq!(shown(&Picture::ALL), Picture::ALL.map(titles).concat());
    assert_eq!(shown(&[Picture::Window]), titles(Picture::Window));
    assert_eq!(Picture::ALL.map(|picture| titles(picture).len()), [1, 1, 1, 0], "none waits");
}
