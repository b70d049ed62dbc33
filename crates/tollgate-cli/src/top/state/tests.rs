use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::fixtures::{NIGHT, hottest, sample, standing, state, watching, who};

const NOW: u64 = NIGHT + 40_000;

fn press_code(state: &mut State, code: KeyCode) -> Vec<Command> {
    state.update(Message::Pressed(KeyEvent::new(code, KeyModifiers::NONE)), NOW)
}

fn press(state: &mut State, keys: &str) -> Vec<Command> {
    let all = keys.chars().flat_map(|c| {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        press_code(state, code)
    });
    all.collect()
}

fn target(rule: &str, key: &[(&str, &str)]) -> Target {
    let key = key.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Target { rule: rule.to_owned(), key: key.collect() }
}

fn acme() -> Target {
    target("per-tenant", &[("tenant", "acme")])
}

fn selected(state: &State) -> Target {
    state.selected_row().unwrap().target
}

/// What is said below.
fn said(state: &State) -> &str {
    state.notice().map(|notice| notice.text.as_str()).unwrap_or_default()
}

fn statuses(commands: &[Command]) -> Vec<&Asked> {
    let asked = commands.iter().filter_map(|command| match command {
        Command::Status(asked) => Some(asked),
        _ => None,
    });
    asked.collect()
}

#[test]
fn the_selection_stays_with_its_key_when_the_order_changes() {
    let mut state = watching("read");
    assert_eq!(selected(&state), acme(), "the first, before anybody chooses");
    press(&mut state, "j");
    let globex = target("per-tenant", &[("tenant", "globex")]);
    assert_eq!(selected(&state), globex);
    let mut event = sample();
    event.uptime_ms += 60_000;
    event.refused.keys.reverse();
    state.update(Message::Sample(event.clone().into()), NOW + 1000);
    assert_eq!((selected(&state), state.selected(Pane::Refused)), (globex, Some(2)));
    event.refused.keys.truncate(1);
    event.uptime_ms += 1000;
    state.update(Message::Sample(event.clone().into()), NOW + 2000);
    assert_eq!(state.selected(Pane::Refused), Some(0), "it is gone");
    event.refused.keys.clear();
    event.uptime_ms += 1000;
    state.update(Message::Sample(event.into()), NOW + 3000);
    assert_eq!(state.selected_row(), None);
    assert_eq!(press(&mut state, "jkgG\n"), [], "nothing is there to select");
}

#[test]
fn keys_move_within_bounds_and_between_tables() {
    let mut state = watching("read");
    press(&mut state, "G");
    assert_eq!(state.selected(Pane::Refused), Some(3));
    press(&mut state, "jjj");
    assert_eq!(state.selected(Pane::Refused), Some(3));
    press(&mut state, "g");
    assert_eq!(state.selected(Pane::Refused), Some(0));
    press(&mut state, "\tj");
    assert_eq!((state.focus, selected(&state)), (Pane::Hottest, acme()));
    press(&mut state, "\t");
    assert_eq!((state.focus, state.selected_row()), (Pane::Rules, None));
    press_code(&mut state, KeyCode::BackTab);
    assert_eq!(state.focus, Pane::Hottest);
}

#[test]
fn every_event_asks_for_the_hottest_keys_and_the_selected_one_and_never_twice_at_once() {
    let mut state = state("read");
    let event = |second: u64| {
        let mut event = sample();
        event.uptime_ms += second * 1000;
        Message::Sample(event.into())
    };
    let commands = state.update(event(0), NIGHT);
    assert_eq!(
        commands,
        [Command::Status(Asked::Row(acme())), Command::Hottest(HottestOf::AllRules)]
    );
    assert_eq!(state.update(event(1), NIGHT + 1000), [], "no answer yet");
    state.update(Message::Standing(Asked::Row(acme()), Ok(standing())), NIGHT + 1500);
    assert!(state.detail().is_some());
    assert_eq!(state.update(event(2), NIGHT + 2000), [Command::Status(Asked::Row(acme()))]);
}

#[test]
fn a_longer_interval_leaves_events_out() {
    let mut state = state("read");
    state.settings.interval_ms = 5000;
    let mut points = 0;
    for second in 0..=20_u64 {
        let mut event = sample();
        event.uptime_ms += second * 1000;
        event.totals.allowed += second * 10;
        // A little early or late, as they come.
        state.update(Message::Sample(event.into()), NIGHT + second * 1000 + second % 3 * 40);
        points = state.view().history.series(None, 99).len();
    }
    assert_eq!((points, state.view().history.rates(None).allowed), (4, 10_000));
}

#[test]
fn a_reset_is_confirmed_done_and_told() {
    let mut state = watching("write");
    assert_eq!(press(&mut state, "r"), []);
    assert_eq!(state.dialog.as_ref().unwrap().kind, Kind::Reset(acme()));
    assert_eq!(press(&mut state, "n"), [], "no");
    assert_eq!(state.dialog, None);
    assert_eq!(press(&mut state, "ry"), [Command::Change(Change::Reset(acme()))]);
    assert!(state.dialog.as_ref().unwrap().busy);
    assert_eq!(press(&mut state, "yy\n"), [], "it is being done once");
    let done = state.update(Message::Changed(Ok("it was reset".to_owned())), NOW);
    assert_eq!((state.dialog.is_none(), said(&state)), (true, "it was reset"));
    assert_eq!(statuses(&done), [&Asked::Row(acme())], "and looked at again");
}

#[test]
fn a_change_that_is_refused_stays_open_and_says_why() {
    let mut state = watching("write");
    press(&mut state, "ry");
    let refused = Problem { status: Some(503), detail: "the store is away".to_owned() };
    state.update(Message::Changed(Err(refused)), NOW);
    let dialog = state.dialog.as_ref().unwrap();
    assert_eq!(dialog.error.as_deref(), Some("not done: the store is away"));
    assert!(!dialog.busy);
    assert_eq!(press(&mut state, "y").len(), 1, "it can be tried again");
    state.update(Message::Changed(Err(Problem::no_answer("timed out"))), NOW);
    let error = state.dialog.as_ref().unwrap().error.clone().unwrap();
    assert!(error.contains("may or may not have been applied"), "{error}");
}

#[test]
fn a_change_that_is_not_waited_for_is_told_when_it_fails() {
    let mut state = watching("write");
    press(&mut state, "ry\u{1b}");
    assert!(
        state.dialog.is_none() && said(&state).contains("may still be applied"),
        "{}",
        said(&state)
    );
    let refused = Problem { status: Some(403), detail: "no".to_owned() };
    state.update(Message::Changed(Err(refused)), NOW);
    assert_eq!(said(&state), "not done: no");
}

#[test]
fn a_token_that_may_only_read_opens_no_dialog_and_says_what_would() {
    let mut state = watching("read");
    for key in ["r", "b", "u", "o", "x"] {
        assert_eq!(press(&mut state, key), []);
        assert_eq!(state.dialog, None);
        assert!(said(&state).contains("role write"), "{}", said(&state));
    }
    state.update(Message::Connected(who("write")), NOW);
    press(&mut state, "r");
    assert!(state.dialog.is_some(), "another token came with the connection");
}

#[test]
fn a_block_has_a_length() {
    let mut state = watching("write");
    assert_eq!(press(&mut state, "b\n"), [Command::Change(Change::Block(acme(), 900))]);
    press(&mut state, "\u{1b}b");
    for _ in 0..3 {
        press_code(&mut state, KeyCode::Backspace);
    }
    assert_eq!(press(&mut state, "\n"), []);
    assert!(state.dialog.as_ref().unwrap().error.is_some(), "a length is needed");
    assert_eq!(press(&mut state, "soon\n"), []);
    let error = state.dialog.as_ref().unwrap().error.clone().unwrap();
    assert!(error.contains("not a duration such as"), "{error}");
    let control = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    state.update(Message::Pressed(control), NOW);
    let done = press(&mut state, "1h30m\n");
    assert_eq!(done, [Command::Change(Change::Block(acme(), 5400))]);
}

#[test]
fn a_blocked_key_is_unblocked_by_the_same_key() {
    let mut state = watching("write");
    state.update(Message::Standing(Asked::Row(acme()), Ok(standing())), NOW);
    assert_eq!(press(&mut state, "by"), [Command::Change(Change::Lift(acme()))]);
    state.update(Message::Changed(Ok(String::new())), NOW);
    assert_eq!(press(&mut state, "uy"), [Command::Change(Change::Lift(acme()))]);
}

#[test]
fn an_override_begins_with_the_numbers_in_force_and_is_checked_before_it_is_sent() {
    let mut state = watching("write");
    press(&mut state, "\n");
    let asked = Asked::Client(acme().key, Some("per-tenant".to_owned()));
    state.update(Message::Standing(asked, Ok(standing())), NOW);
    press(&mut state, "jo");
    let dialog = state.dialog.as_ref().unwrap();
    assert_eq!(dialog.fields[0].text, "10000/day and 900/h");
    let daily = target("daily", &[("tenant", "acme")]);
    let limits = vec!["10000/day".to_owned(), "900/h0".to_owned()];
    press(&mut state, "0\n");
    assert!(state.dialog.as_ref().unwrap().error.is_some(), "{limits:?} is no limit");
    press_code(&mut state, KeyCode::Backspace);
    press(&mut state, "\tgold\t");
    press_code(&mut state, KeyCode::Backspace);
    press_code(&mut state, KeyCode::Backspace);
    let limits = vec!["10000/day".to_owned(), "900/h".to_owned()];
    let change = Change::Override(daily.clone(), limits, Some("gold".to_owned()), None);
    assert_eq!(press(&mut state, "\n"), [Command::Change(change)], "without end");
    state.update(Message::Changed(Ok(String::new())), NOW);
    assert_eq!(press(&mut state, "xy"), [Command::Change(Change::RemoveOverride(daily))]);
}

#[test]
fn what_cannot_be_changed_says_why() {
    let mut state = watching("write");
    press(&mut state, "\tjjr");
    assert!(said(&state).contains("clients bring this limit"), "{}", said(&state));
    assert_eq!(press(&mut state, "\n"), [], "nor can it be looked at");
    press(&mut state, "\tr");
    assert!(said(&state).contains("select a key first"), "{}", said(&state));
    press(&mut state, "\tGr");
    assert!(said(&state).contains("no rule has decided"), "{}", said(&state));
    let mut event = sample();
    event.refused.keys[0].whole = false;
    event.uptime_ms += 60_000;
    state.update(Message::Sample(event.into()), NOW + 1000);
    press(&mut state, "gr");
    assert!(said(&state).contains("too long"), "{}", said(&state));
    assert_eq!(state.dialog, None);
}

#[test]
fn a_search_by_attributes_opens_the_key_and_by_a_part_of_it_looks_for_it() {
    let mut state = watching("read");
    let commands = press(&mut state, "/user=42 route=\"/a b\"\n");
    let key = target("", &[("user", "42"), ("route", "/a b")]).key;
    let others = Command::Others(key.clone(), None);
    assert_eq!(commands, [Command::Status(Asked::Client(key, None)), others]);
    assert_eq!(press(&mut state, "\u{1b}/4q?\n"), [Command::Find("4q?".to_owned())]);
    let found = Problem::no_answer("gone");
    state.update(Message::Found("other".to_owned(), Err(found)), NOW);
    let Some(Page::Found(page)) = state.page() else { panic!("a page") };
    assert!(page.found.is_none(), "that was an earlier search");
    press(&mut state, "\u{1b}");
    assert!(state.page().is_none());
    assert_eq!(press(&mut state, "/\n"), [], "nothing was typed");
}

fn page(state: &State) -> &KeyPage {
    let Some(Page::Key(page)) = state.page() else { panic!("a key") };
    page
}

/// A key page that was opened for a rule, with what the server said of it.
fn opened(told: Standing) -> State {
    let mut state = watching("write");
    press(&mut state, "\n");
    let asked = Asked::Client(acme().key, Some("per-tenant".to_owned()));
    state.update(Message::Standing(asked, Ok(told)), NOW);
    state
}

#[test]
fn the_rule_that_denies_is_selected_and_a_chosen_rule_stays_selected() {
    let mut told = standing();
    told.rules.swap(0, 1);
    told.rule = Some("daily".to_owned());
    let mut state = opened(told.clone());
    assert_eq!(
        page(&state).selected_rule().unwrap().rule,
        "daily",
        "not the rule it was opened for"
    );
    press(&mut state, "j");
    assert_eq!(page(&state).selected_rule().unwrap().rule, "per-tenant");
    told.rules.reverse();
    let asked = Asked::Client(acme().key, None);
    state.update(Message::Standing(asked, Ok(told)), NOW);
    assert_eq!(page(&state).selected_rule().unwrap().rule, "per-tenant");
    press(&mut state, "jjjjjkk");
    assert_eq!(page(&state).selected(), Some(1));
}

#[test]
fn another_key_of_a_client_is_selected_if_no_rule_applies_and_can_be_changed() {
    let mut told = standing();
    (told.allowed, told.reason, told.rule) = (true, "no_rule".to_owned(), None);
    let mut of = told.rules.remove(0);
    told.rules.clear();
    let mut state = opened(told);
    assert_eq!(page(&state).selected(), None);
    let mut other = of.clone();
    other.rule = "search".to_owned();
    other.blocked_ms = None;
    of.blocked_ms = None;
    let found = OtherKeys { keys: vec![other, of], more: false };
    state.update(Message::Others(acme().key, Ok(found)), NOW);
    assert_eq!(page(&state).selected_rule().unwrap().rule, "per-tenant", "it was opened for it");
    assert_eq!(press(&mut state, "b\n"), [Command::Change(Change::Block(acme(), 900))]);
}

#[test]
fn other_keys_are_searched_for_now_and_then_and_after_a_change() {
    let mut state = opened(standing());
    let others = |commands: &[Command]| {
        commands.iter().filter(|command| matches!(command, Command::Others(..))).count()
    };
    let event = |state: &mut State, second: u64| {
        let mut event = sample();
        event.uptime_ms += 60_000 + second * 1000;
        state.update(Message::Sample(event.into()), NOW + second * 1000)
    };
    assert_eq!(others(&event(&mut state, 1)), 0, "no answer yet");
    state.update(Message::Others(acme().key, Ok(OtherKeys::default())), NOW + 1000);
    assert_eq!(others(&event(&mut state, 2)), 0);
    assert_eq!(others(&state.update(Message::Changed(Ok(String::new())), NOW + 2500)), 1);
    state.update(Message::Others(acme().key, Ok(OtherKeys::default())), NOW + 3000);
    assert_eq!(others(&event(&mut state, 12)), 0);
    assert_eq!(others(&event(&mut state, 13)), 1);
}

#[test]
fn a_wait_that_has_passed_is_asked_about() {
    let mut state = opened(standing());
    let tick = |state: &mut State, passed: u64| state.update(Message::Tick, NOW + passed);
    assert_eq!(tick(&mut state, 19_999), []);
    let again = tick(&mut state, 20_000);
    assert_eq!(statuses(&again).len(), 1, "the shadow rule would allow by now");
    assert_eq!(tick(&mut state, 20_001), [], "once");
}

#[test]
fn a_change_of_a_wider_key_says_whom_it_affects() {
    let mut told = standing();
    told.rules[0].ignored_attributes = vec!["user".to_owned()];
    let key = target("", &[("tenant", "acme"), ("user", "42")]).key;
    let mut state = watching("write");
    press(&mut state, "/tenant=acme user=42\n");
    state.update(Message::Standing(Asked::Client(key, None), Ok(told)), NOW);
    let warns = "Affects all users of tenant=acme, not only user=42.";
    for change in ["r", "u"] {
        press(&mut state, change);
        assert_eq!(state.dialog.as_ref().unwrap().warning.as_deref(), Some(warns));
        press(&mut state, "n");
    }
    press(&mut state, "jr");
    assert_eq!(state.dialog.as_ref().unwrap().warning, None, "the key of daily is not wider");
}

#[test]
fn a_pause_keeps_the_numbers_and_changes_can_be_made() {
    let mut state = watching("write");
    let before = state.view().history.rates(None);
    press(&mut state, "p");
    let mut event = sample();
    event.uptime_ms += 41_000;
    event.totals.allowed += 1_000_000;
    event.refused.keys.clear();
    state.update(Message::Sample(event.into()), NOW + 1000);
    assert_eq!(state.view().history.rates(None), before);
    assert_eq!(press(&mut state, "ry"), [Command::Change(Change::Reset(acme()))]);
    press(&mut state, "\u{1b}p");
    assert_ne!(state.view().history.rates(None), before, "it went on behind");
    assert_eq!(state.selected_row(), None);
}

#[test]
fn a_lost_connection_keeps_since_when_and_is_forgotten_when_it_is_back() {
    let mut state = watching("read");
    let lost = |detail: &str| Message::Lost(Problem::no_answer(detail), 500);
    state.update(lost("one"), NOW + 5000);
    state.update(lost("two"), NOW + 6000);
    let Link::Lost { since_ms, why, retry_at_ms } = &state.link else { panic!("lost") };
    assert_eq!((*since_ms, why.detail.as_str(), *retry_at_ms), (NOW, "two", NOW + 6500));
    let mut event = sample();
    event.uptime_ms += 60_000;
    state.update(Message::Sample(event.into()), NOW + 7000);
    assert_eq!(state.link, Link::Live);
}

#[test]
fn a_text_that_is_pasted_presses_nothing() {
    let mut state = watching("write");
    let paste = |state: &mut State, text: &str| state.update(Message::Pasted(text.to_owned()), NOW);
    assert_eq!((paste(&mut state, "ry\nq"), state.dialog.is_none()), (vec![], true));
    press(&mut state, "r");
    assert_eq!(paste(&mut state, "y\n"), []);
    assert!(!state.dialog.as_ref().unwrap().busy);
    press(&mut state, "n/");
    assert_eq!(paste(&mut state, " acme\r\n"), []);
    assert_eq!(press(&mut state, "\n"), [Command::Find("acme".to_owned())]);
}

#[test]
fn a_rule_can_be_charted_alone() {
    let mut state = watching("read");
    press(&mut state, "\t\tj\n");
    assert_eq!(state.charted.as_deref(), Some("per-user"));
    press(&mut state, "\n");
    assert_eq!(state.charted, None);
}

#[test]
fn hottest_keys_are_those_of_the_charted_rule_until_it_is_removed() {
    let mut state = watching("read");
    let chart = |state: &mut State, pressed: &str| {
        let commands = press(state, pressed);
        state.update(Message::Hottest(Ok(hottest())), NOW);
        commands
    };
    let of = |rule: &str| Command::Hottest(HottestOf::Rule(rule.to_owned()));
    assert_eq!(chart(&mut state, "\t\tj\n"), [of("per-user")]);
    let shadow = Command::Hottest(HottestOf::Shadow("trial".to_owned()));
    assert_eq!(chart(&mut state, "j\n"), [shadow]);
    let mut event = sample();
    event.uptime_ms += 50_000;
    event.rules.pop();
    let commands = state.update(Message::Sample(event.into()), NOW + 10_000);
    assert!(commands.contains(&Command::Hottest(HottestOf::AllRules)), "{commands:?}");
    assert_eq!(state.charted, None, "it has left the policy");
}

#[test]
fn it_is_left_by_q_by_control_c_and_by_a_signal() {
    let mut state = watching("read");
    assert_eq!(press(&mut state, "q"), [Command::Leave]);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut state, "/q");
    assert!(state.dialog.is_some(), "typed, not pressed");
    assert_eq!(state.update(Message::Pressed(control_c), NOW), [Command::Leave]);
    assert_eq!(state.update(Message::Ended, NOW), [Command::Leave]);
}
