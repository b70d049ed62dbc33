//! Whole screens, compared with those in `snapshots/`. With `UPDATE_SNAPSHOTS=1` they are written.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::*;
use crate::top::client::Problem;
use crate::top::fixtures::{NIGHT, hottest, sample, standing, state, watching};
use crate::top::state::{Asked, Command, Found, Message, OtherKeys};
use crate::top::told::FoundKey;

const PLAIN: Looks = Looks { colours: true, unicode: true };
const NOW: u64 = NIGHT + 40_000;

fn picture(state: &State, looks: Looks, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, looks, frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(picture: &Buffer) -> String {
    let width = usize::from(picture.area.width);
    let lines = picture.content.chunks(width).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Compares what is drawn with the screen of that name.
fn is_screen(name: &str, state: &State, size: (u16, u16)) {
    is_text(name, &text(&picture(state, PLAIN, size)));
}

fn is_text(name: &str, drawn: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/draw/snapshots");
    let file = folder.join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&file, drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(kept, drawn, "{}: with UPDATE_SNAPSHOTS=1 it is written anew\n{drawn}", name);
}

fn press(state: &mut State, keys: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        commands.extend(state.update(Message::Pressed(key), NOW));
    }
    commands
}

/// With the line that tells how the selected key stands.
fn selected(role: &str) -> State {
    let mut state = watching(role);
    let target = state.selected_row().unwrap().target;
    let mut told = standing();
    told.rules.truncate(1);
    state.update(Message::Standing(Asked::Row(target), Ok(told)), NOW);
    state
}

fn looking_at_acme() -> State {
    let mut state = watching("write");
    press(&mut state, "\n");
    let Some(Page::Key(page)) = state.page() else { panic!("a key") };
    let asked = Asked::Client(page.key.clone(), page.rule.clone());
    state.update(Message::Standing(asked, Ok(standing())), NOW);
    state
}

#[test]
fn the_overview_fits_eighty_by_twenty_four() {
    is_screen("overview_80x24", &selected("write"), (80, 24));
}

#[test]
fn the_guide_shows_the_screens_as_they_are() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/top.md");
    let guide = std::fs::read_to_string(&file).unwrap();
    let screens = [(selected("write"), (80, 24)), (looking_at_acme(), (80, 18))]
        .map(|(state, size)| text(&picture(&state, PLAIN, size)).trim_end().to_owned());
    let mut parts: Vec<&str> = guide.split("```").collect();
    let blocks = (1..parts.len()).filter(|at| parts[*at].starts_with("text\n"));
    let shown: Vec<(usize, String)> =
        blocks.zip(screens.map(|screen| format!("text\n{screen}\n"))).collect();
    shown.iter().for_each(|(at, screen)| parts[*at] = screen);
    let written = parts.join("```");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(file, &written).unwrap();
    } else {
        assert_eq!((shown.len(), guide), (2, written), "UPDATE_SNAPSHOTS=1 writes it anew");
    }
}

#[test]
fn a_large_window_shows_more() {
    is_screen("overview_160x40", &selected("read"), (160, 40));
}

#[test]
fn a_narrow_window_shows_one_table_and_the_columns_that_matter() {
    is_screen("overview_40x16", &selected("write"), (40, 16));
}

#[test]
fn every_size_can_be_drawn() {
    let (overview, key) = (selected("write"), looking_at_acme());
    let mut dialog = selected("write");
    press(&mut dialog, "o");
    let mut help = selected("write");
    press(&mut help, "?");
    let sizes = [0, 1, 5, 6, 12, 20, 33, 64, 80, 141];
    for width in sizes {
        for height in sizes {
            for state in [&overview, &key, &dialog, &help] {
                drop(picture(state, PLAIN, (width, height)));
            }
        }
    }
}

#[test]
fn before_the_first_event_it_says_that_it_connects() {
    is_screen("connecting", &state("read"), (80, 24));
}

#[test]
fn a_lost_connection_is_shown_with_since_when() {
    let mut state = selected("write");
    let why = Problem::no_answer("cannot connect: Connection refused (os error 111)");
    state.update(Message::Lost(why, 3000), NOW + 12_000);
    is_screen("lost", &state, (80, 24));
    let small = text(&picture(&state, PLAIN, (40, 10)));
    assert!(small.starts_with(" LOST since 03:12:40 UTC (12s), next"), "{small}");
}

#[test]
fn connection_that_was_lost_on_another_day_is_shown_with_the_date() {
    let mut state = selected("write");
    let why = Problem::no_answer("cannot connect");
    state.update(Message::Lost(why, 3000), NOW + 12_000);
    state.update(Message::Tick, NOW + 24 * 3_600_000);
    let shown = text(&picture(&state, PLAIN, (80, 24)));
    assert!(shown.contains(" LOST since 2026-11-16 03:12:40 UTC (24h00m)"), "{shown}");
}

#[test]
fn what_is_wrong_with_the_store_and_the_policy_is_in_words() {
    let mut state = state("read");
    for second in 0..2 {
        let mut event = sample();
        event.uptime_ms += second * 1000;
        event.health = "degraded".to_owned();
        event.totals.degraded += second * 7;
        event.policy.last_refused = true;
        event.rules_left_out = 6;
        event.store = serde_json::from_str(
            r#"{"kind": "redis", "outage": {"address": "10.0.0.7:6379", "lasted_ms": 83000,
                "why": "no answer"}, "fallback": {"nodes": 3, "local": 3, "allow": 0, "deny": 0}, "outages": 2, "failed_calls": 31, "live_keys": null,
                "evictions": 0, "turned_away": 0}"#,
        )
        .unwrap();
        state.update(Message::Sample(event.into()), NIGHT + second * 1000);
    }
    is_screen("degraded", &state, (100, 24));
}

#[test]
fn a_key_is_shown_on_every_rule_with_what_is_left() {
    is_screen("key", &looking_at_acme(), (80, 18));
    is_screen("key_40x16", &looking_at_acme(), (40, 16));
}

#[test]
fn without_a_matching_rule_there_is_no_all_clear_and_other_keys_are_listed() {
    let mut state = watching("write");
    press(&mut state, "/user=scraper-7\n");
    let Some(Page::Key(page)) = state.page() else { panic!("a key") };
    let (key, mut told) = (page.key.clone(), standing());
    (told.allowed, told.reason, told.rule) = (true, "no_rule".to_owned(), None);
    told.tier = None;
    let mut denied = told.rules.remove(2);
    told.rules.clear();
    denied.shadow = false;
    denied.numbers.clear();
    denied.rule = "per-user".to_owned();
    let named = |tenant: &str| {
        let pairs = [("tenant", tenant), ("user", "scraper-7")];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    };
    denied.key = named("globex");
    let mut allowed = denied.clone();
    (allowed.allowed, allowed.remaining, allowed.retry_after_ms) = (true, Some(1), Some(0));
    allowed.key = named("acme");
    state.update(Message::Standing(Asked::Client(key.clone(), None), Ok(told)), NOW);
    let others = OtherKeys { keys: vec![denied, allowed], more: true };
    state.update(Message::Others(key, Ok(others)), NOW + 3000);
    is_screen("key_without_rule", &state, (80, 18));
}

#[test]
fn a_wait_that_has_passed_allows_nothing_by_itself() {
    let mut state = looking_at_acme();
    state.update(Message::Tick, NOW + 600_000);
    let screen = text(&picture(&state, PLAIN, (80, 18)));
    assert!(
        screen.contains("DENIED: blocked under rule per-tenant, when asked 10m00s ago"),
        "{screen}"
    );
    assert!(screen.contains("BLOCKED when asked 10m00s ago"), "{screen}");
}

#[test]
fn a_block_of_a_wider_key_warns() {
    let mut state = watching("write");
    press(&mut state, "/tenant=acme user=42\n");
    let Some(Page::Key(page)) = state.page() else { panic!("a key") };
    let (asked, mut told) = (Asked::Client(page.key.clone(), None), standing());
    told.rules[0].blocked_ms = None;
    told.rules[0].ignored_attributes = vec!["user".to_owned()];
    state.update(Message::Standing(asked, Ok(told)), NOW);
    press(&mut state, "b");
    is_screen("block_wider", &state, (80, 24));
}

#[test]
fn a_search_shows_what_it_has_found() {
    let mut state = watching("write");
    let commands = press(&mut state, "/acm\n");
    assert_eq!(commands, [Command::Find("acm".to_owned())]);
    let key = |name: &str| [("tenant".to_owned(), name.to_owned())].into();
    let of = |name, figures: Option<(u64, u64)>| FoundKey {
        rule: Some("per-tenant".to_owned()),
        key: key(name),
        whole: true,
        limit: figures.map(|_| 5),
        remaining: figures.map(|(left, _)| left),
        retry_after_ms: figures.map(|(_, retry)| retry),
        reset_after_ms: figures.map(|(_, retry)| retry),
        blocked_ms: None,
        shadow: false,
        ignored_attributes: Vec::new(),
    };
    let keys = vec![of("acme", Some((0, 48_000))), of("acme-2", Some((4, 0))), of("lacma", None)];
    let found = Message::Found("acm".to_owned(), Ok(Found { keys, more: true }));
    state.update(found, NOW);
    is_screen("found", &state, (80, 12));
    press(&mut state, "/zzz");
    is_screen("searching", &state, (80, 12));
}

#[test]
fn a_reset_is_asked_about_before_it_is_done() {
    let mut state = selected("write");
    press(&mut state, "r");
    is_screen("reset", &state, (80, 24));
}

#[test]
fn what_is_said_is_said_whole() {
    let mut state = selected("read");
    press(&mut state, "r");
    is_screen("may_only_read", &state, (80, 24));
}

#[test]
fn an_override_is_typed_and_what_is_wrong_is_said_there() {
    let mut state = looking_at_acme();
    press(&mut state, "jo");
    press(&mut state, "x\n");
    is_screen("override", &state, (80, 24));
}

#[test]
fn the_keys_are_told() {
    let mut state = selected("read");
    press(&mut state, "?");
    is_screen("help", &state, (80, 24));
}

/// A server whose clients call themselves as they like.
fn hostile() -> State {
    let mut state = state("write");
    let names = [
        "\u{1b}[2J\u{1b}[31mroot\u{7}".to_owned(),
        "\u{202e}nimda\u{2066}".to_owned(),
        "שלום עולם".to_owned(),
        "鍵".repeat(60),
        "e\u{301}\u{301}\u{301}\u{200d}".to_owned(),
        "a\r\n\tb".to_owned(),
        String::new(),
    ];
    for second in 0..2 {
        let mut event = sample();
        event.uptime_ms += second * 1000;
        let first = event.refused.keys[1].clone();
        event.refused.keys = names
            .iter()
            .map(|name| {
                let mut of = first.clone();
                of.key = [("user".to_owned(), name.clone())].into();
                of
            })
            .collect();
        event.rules[0].rule = "\u{9b}2Jrule".to_owned();
        event.version = "\u{1b}]0;title\u{7}".to_owned();
        state.update(Message::Sample(event.into()), NIGHT + second * 1000);
    }
    let mut hot = hottest();
    hot.keys[0].key = [("\u{1b}[H".to_owned(), names[0].clone())].into();
    state.update(Message::Hottest(Ok(hot)), NIGHT + 1000);
    state
}

#[test]
fn shadow_rule_shows_what_it_would_deny_and_the_keys_that_it_would() {
    let mut state = watching("read");
    press(&mut state, "\t\tjj\n");
    let mut hot = hottest();
    hot.keys.truncate(2);
    for (key, would_deny) in hot.keys.iter_mut().zip([9, 3]) {
        key.rule = "trial".to_owned();
        (key.denied, key.would_deny) = (0, would_deny);
    }
    state.update(Message::Hottest(Ok(hot)), NIGHT + 41_000);
    is_screen("shadow_rule", &state, (100, 24));
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let mut state = hostile();
    is_screen("hostile", &state, (100, 24));
    press(&mut state, "r");
    for looks in [PLAIN, Looks { colours: false, unicode: false }] {
        for cell in &picture(&state, looks, (100, 24)).content {
            let is_fine =
                |c: char| crate::top::text::is_plain(c) && (looks.unicode || c.is_ascii());
            assert!(cell.symbol().chars().all(is_fine), "{:?}", cell.symbol());
        }
    }
}

#[test]
fn without_colours_and_without_unicode_everything_is_still_said() {
    let looks = Looks { colours: false, unicode: false };
    let picture = picture(&selected("write"), looks, (80, 24));
    let no_colour =
        |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
    assert!(picture.content.iter().all(no_colour));
    let marked = picture.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert!(marked, "the selected row is seen all the same");
    is_text("ascii", &text(&picture));
}
