//! Which pictures of a simulation there are, and what is in them.

use tollgate::Limit;
use tollgate_lab::picture::Screen;
use tollgate_lab::simulate::{Picture, Simulated, Simulation};
use tollgate_lab::traffic::Traffic;

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
    assert!(chart.svg().contains("offered"), "{}", chart.svg());
    let screen = Screen::plain(80);
    assert!(chart.terminal(screen).contains("offered"));
    // Where nobody tries again, the bars together are what was offered.
    let simulated = run(&Simulation::of_limits([limit("1/s")]).traffic(traffic(&["steady 2/s"])));
    assert!(!simulated.charts(Picture::Requests)[0].svg().contains(">offered<"));
}

#[test]
fn a_page_has_the_pictures_that_were_asked_for() {
    let simulated = run(&Simulation::of_limits([limit("5/min")]).traffic(traffic(&["steady 1/s"])));
    let page = |pictures: &[Picture]| simulated.report("tollgate simulate", pictures).html();
    assert!(page(&Picture::ALL).contains("remaining"));
    let one = page(&[Picture::Window]);
    assert!(one.contains("went ahead in the last") && !one.contains("remaining"), "{one}");
}
