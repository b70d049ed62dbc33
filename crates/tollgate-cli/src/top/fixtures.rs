//! Answers of a server, for tests.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::state::{Message, Settings, State};
use super::told::{Hottest, Sample, Standing, Who};

/// 2026-11-16 03:12:00 UTC.
pub(super) const NIGHT: u64 = 1_794_798_720_000;

/// An event of a server that has three rules and some traffic.
pub(super) fn sample() -> Sample {
    serde_json::from_str(include_str!("fixtures/sample.json")).unwrap()
}

pub(super) fn hottest() -> Hottest {
    serde_json::from_str(include_str!("fixtures/hottest.json")).unwrap()
}

pub(super) fn standing() -> Standing {
    serde_json::from_str(include_str!("fixtures/standing.json")).unwrap()
}

pub(super) fn who(role: &str) -> Who {
    Who { name: "ana".to_owned(), role: role.to_owned() }
}

/// Before anything was heard.
pub(super) fn state(role: &str) -> State {
    State::new(
        Settings {
            server: "http://127.0.0.1:8080".to_owned(),
            interval_ms: 1000,
            zone: TimeZone::UTC,
        },
        who(role),
        NIGHT,
    )
}

/// After some seconds of traffic.
pub(super) fn watching(role: &str) -> State {
    let mut state = state(role);
    let (mut allowed, mut denied) = (0, 0);
    for second in 0..=40_u64 {
        let mut event = sample();
        // A wave, and who is refused comes in two floods.
        let wave = [0, 40, 90, 120, 130, 120, 90, 40];
        allowed += 400 + 2 * wave[usize::try_from(second / 2 % 8).unwrap()] + second % 3 * 11;
        denied += if second % 30 > 21 { 90 + second % 5 * 9 } else { 4 + second % 3 };
        event.uptime_ms += second * 1000;
        event.now_ms += second * 1000;
        event.totals.allowed += allowed;
        event.totals.denied += denied;
        event.rules[0].requests.allowed += allowed * 2 / 3;
        event.rules[0].requests.denied += denied;
        event.rules[1].requests.allowed += allowed / 4;
        event.rules[2].shadow.as_mut().unwrap().would_allow += allowed / 12;
        let http = event.latency.get_mut("http").unwrap().as_mut().unwrap();
        http[4] += allowed;
        http[7] += allowed / 40;
        state.update(Message::Sample(Arc::new(event)), NIGHT + second * 1000);
    }
    state.update(Message::Hottest(Ok(hottest())), NIGHT + 40_000);
    state
}
