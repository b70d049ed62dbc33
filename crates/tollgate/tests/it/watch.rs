//! Hot reload, with real files and real links.

// Helpers of tests are not tests to clippy.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate::{Gate, Policy, PolicyWatcher, ReloadEvent};
use tollgate_testkit::{DEADLINE, eventually};

/// The text of a policy with one rule.
fn policy(rule: &str) -> String {
    format!("[[rule]]\nname = \"{rule}\"\nlimit = \"1/s\"\n")
}

/// A watched file, and what was said of it.
struct Watched {
    dir: TempDir,
    path: PathBuf,
    reloads: Receiver<ReloadEvent>,
    watch: Option<PolicyWatcher>,
}

impl Watched {
    /// Watches `limits.toml` in a directory that `prepare` has filled.
    fn new(prepare: impl FnOnce(&Path)) -> Watched {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let path = dir.path().join("limits.toml");
        let (events, reloads) = mpsc::channel();
        let watch = PolicyWatcher::start(&path, move |reload| drop(events.send(reload))).unwrap();
        Watched { dir, path, reloads, watch: Some(watch) }
    }

    /// Watches a file that holds the rule `first`, which was reported.
    fn plain() -> Watched {
        let watched =
            Watched::new(|dir| fs::write(dir.join("limits.toml"), policy("first")).unwrap());
        assert_eq!(watched.next(), "first");
        watched
    }

    /// The next report, as [`report`](Self::report) writes it.
    fn next(&self) -> String {
        self.report(self.reloads.recv_timeout(DEADLINE).expect("a report in time"))
    }

    /// The rule's name, or the error without the name of the file.
    fn report(&self, reload: ReloadEvent) -> String {
        match reload {
            ReloadEvent::Loaded(loaded) => loaded.policy.rules[0].name.clone(),
            ReloadEvent::Rejected(error) => {
                let error = error.to_string();
                error.strip_prefix(self.path.to_str().unwrap()).unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reports up to the one of `wanted`, which is the last.
    fn until(&self, wanted: &str) -> Vec<String> {
        let mut reports = Vec::new();
        while reports.last().is_none_or(|last| last != wanted) {
            reports.push(self.next());
        }
        reports
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).unwrap();
    }

    fn replace(&self, text: &str) {
        replace(&self.path, text);
    }
}

/// Writes another file and renames it over this one.
fn replace(path: &Path, text: &str) {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, path).unwrap();
}

#[test]
fn a_file_that_is_written_anew_is_read_anew() {
    let watched = Watched::plain();
    for rule in ["second", "third", "first"] {
        watched.write(&policy(rule));
        assert_eq!(watched.next(), rule);
    }
}

#[test]
fn a_file_that_another_is_renamed_over_is_read_anew() {
    let watched = Watched::plain();
    for rule in ["second", "third"] {
        watched.replace(&policy(rule));
        assert_eq!(watched.next(), rule);
    }
    watched.write(&policy("fourth"));
    assert_eq!(watched.next(), "fourth");
}

/// Puts `rule` into a ConfigMap's directory as kubelet does, and turns the link to it.
fn mount(dir: &Path, version: &str, rule: &str) {
    let data = dir.join(version);
    fs::create_dir(&data).unwrap();
    fs::write(data.join("limits.toml"), policy(rule)).unwrap();
    symlink(version, dir.join("..data_tmp")).unwrap();
    let old = fs::read_link(dir.join("..data")).ok();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    if let Some(old) = old {
        fs::remove_dir_all(dir.join(old)).unwrap();
    }
}

#[test]
fn a_config_map_is_read_anew_when_its_link_is_turned() {
    let watched = Watched::new(|dir| {
        mount(dir, "..2026_01", "first");
        symlink("..data/limits.toml", dir.join("limits.toml")).unwrap();
    });
    assert_eq!(watched.next(), "first");
    for (version, rule) in
        [("..2026_02", "second"), ("..2026_03", "third"), ("..2026_04", "fourth")]
    {
        mount(watched.dir.path(), version, rule);
        assert_eq!(watched.next(), rule);
    }
}

#[test]
fn a_link_above_the_file_counts_too_and_so_does_what_it_leads_to() {
    let dir = tempfile::tempdir().unwrap();
    for release in ["1", "2"] {
        fs::create_dir(dir.path().join(release)).unwrap();
        fs::write(dir.path().join(release).join("limits.toml"), policy(release)).unwrap();
    }
    symlink("1", dir.path().join("current")).unwrap();
    let path = dir.path().join("current/limits.toml");
    let (events, reloads) = mpsc::channel();
    let watch = PolicyWatcher::start(&path, move |reload| drop(events.send(reload))).unwrap();
    let watched = Watched { dir, path, reloads, watch: Some(watch) };
    assert_eq!(watched.next(), "1");

    symlink("2", watched.dir.path().join("next")).unwrap();
    fs::rename(watched.dir.path().join("next"), watched.dir.path().join("current")).unwrap();
    assert_eq!(watched.next(), "2");
    fs::write(watched.dir.path().join("2/limits.toml"), policy("2b")).unwrap();
    assert_eq!(watched.next(), "2b");
}

#[test]
fn rapid_rewrites_end_with_what_was_written_last() {
    let watched = Watched::plain();
    for number in 0..500 {
        watched.write(&policy(&format!("rule-{number}")));
    }
    let reports = watched.until("rule-499");
    assert!(reports.iter().all(|report| report.starts_with("rule-")), "{reports:?}");
}

#[test]
fn a_file_is_never_taken_while_half_of_it_is_written() {
    let halves = |watched: &Watched, number: u32| {
        let start = Instant::now();
        let mut file = fs::File::create(&watched.path).unwrap();
        file.write_all(policy("half").as_bytes()).unwrap();
        std::thread::yield_now();
        file.write_all(policy(&format!("rule-{number}")).as_bytes()).unwrap();
        drop(file);
        start.elapsed()
    };
    // A file that rests for a second is read, also if its writer has not closed it: a run in which
    // the machine stops the writer for as long proves nothing.
    let watched = eventually("a run without a stop", || {
        let watched = Watched::plain();
        let longest = (0..500).map(|number| halves(&watched, number)).max();
        (longest < Some(Duration::from_secs(1))).then_some(watched)
    });
    loop {
        let reload = watched.reloads.recv_timeout(DEADLINE).expect("a report in time");
        let ReloadEvent::Loaded(loaded) = reload else { panic!("{reload:?}") };
        assert_eq!(loaded.policy.rules.len(), 2);
        if loaded.policy.rules[1].name == "rule-499" {
            break;
        }
    }
}

#[test]
fn a_file_that_never_rests_is_read_now_and_then() {
    let watched = Watched::plain();
    let mut numbers = 0..;
    for _ in 0..2 {
        // Each poll writes, and polls are closer together than a file must rest.
        let reload = eventually("a report of a file that never rests", || {
            watched.replace(&policy(&format!("rule-{}", numbers.next().unwrap())));
            watched.reloads.try_recv()
        });
        let report = watched.report(reload);
        assert!(report.starts_with("rule-"), "{report}");
    }
    watched.replace(&policy("last"));
    watched.until("last");
}

#[test]
fn a_bad_file_is_refused_and_a_good_one_taken_again() {
    let watched = Watched::plain();
    watched.write("this is no policy");
    let refusal = watched.next();
    assert!(refusal.starts_with(":1: "), "{refusal}");
    watched.write(&policy("second"));
    assert_eq!(watched.next(), "second");
}

#[test]
fn an_empty_file_that_stays_so_is_a_policy_without_rules() {
    let watched = Watched::plain();
    watched.write("");
    let reload = watched.reloads.recv_timeout(DEADLINE).expect("a report in time");
    let ReloadEvent::Loaded(loaded) = reload else { panic!("{reload:?}") };
    assert_eq!(loaded.policy, Policy::new());
}

#[test]
fn the_same_content_is_not_reported() {
    let watched = Watched::plain();
    watched.write(&policy("first"));
    watched.replace(&policy("first"));
    // A second watch reads its file after as long a rest, so that both have read theirs when it
    // reports. A unit test of the watch's thread proves the claim without a second watch.
    let other = watched.dir.path().join("other.toml");
    fs::write(&other, policy("other")).unwrap();
    let (events, reloads) = mpsc::channel();
    let _watch = PolicyWatcher::start(&other, move |reload| drop(events.send(reload))).unwrap();
    for rule in ["other", "another"] {
        let reload = reloads.recv_timeout(DEADLINE).unwrap();
        let ReloadEvent::Loaded(loaded) = reload else { panic!("{reload:?}") };
        assert_eq!(loaded.policy.rules[0].name, rule);
        fs::write(&other, policy("another")).unwrap();
    }
    watched.write(&policy("second"));
    assert_eq!(watched.next(), "second", "the first report since the same content was written");
}

#[test]
fn a_file_that_is_deleted_is_reported_and_read_when_it_is_back() {
    let watched = Watched::plain();
    fs::remove_file(&watched.path).unwrap();
    assert_eq!(watched.next(), ": there is no such file");
    watched.write(&policy("first"));
    assert_eq!(watched.next(), "first");
}

#[test]
fn a_directory_that_is_removed_or_renamed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let path = home.join("limits.toml");
    fs::write(&path, policy("first")).unwrap();
    let (events, reloads) = mpsc::channel();
    let watch = PolicyWatcher::start(&path, move |reload| drop(events.send(reload))).unwrap();
    let watched = Watched { dir, path, reloads, watch: Some(watch) };
    assert_eq!(watched.next(), "first");

    fs::remove_dir_all(&home).unwrap();
    assert_eq!(watched.next(), ": there is no such file");
    fs::create_dir(&home).unwrap();
    watched.write(&policy("second"));
    assert_eq!(watched.next(), "second");

    fs::rename(&home, watched.dir.path().join("away")).unwrap();
    assert_eq!(watched.next(), ": there is no such file");
    fs::create_dir(&home).unwrap();
    watched.write(&policy("third"));
    assert_eq!(watched.next(), "third");
}

#[test]
fn a_file_that_is_not_there_yet_is_waited_for() {
    let watched = Watched::new(|_| ());
    assert_eq!(watched.next(), ": there is no such file");
    watched.write(&policy("first"));
    assert_eq!(watched.next(), "first");
}

#[test]
fn nothing_is_reported_after_a_watch_is_dropped() {
    let mut watched = Watched::plain();
    drop(watched.watch.take());
    watched.write(&policy("second"));
    assert_eq!(watched.reloads.recv_timeout(DEADLINE).unwrap_err(), RecvTimeoutError::Disconnected);
}

#[test]
fn a_watch_may_be_dropped_by_what_it_calls() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("limits.toml");
    let (hand_over, watches) = mpsc::channel::<PolicyWatcher>();
    let (done, is_done) = mpsc::channel();
    let watch = PolicyWatcher::start(&path, move |_| {
        drop(watches.recv());
        done.send(()).unwrap();
    });
    hand_over.send(watch.unwrap()).unwrap();
    is_done.recv_timeout(DEADLINE).unwrap();
}

#[test]
fn a_gate_follows_its_file_and_keeps_its_policy_where_that_is_bad() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("limits.toml");
    fs::write(&path, policy("first")).unwrap();
    let gate = Gate::new(Policy::load(&path).unwrap().policy).unwrap();
    let in_force = |gate: &Gate| gate.policy().rules[0].name.clone();
    let (events, reloads) = mpsc::channel();
    let _watch = gate.watch_file(&path, move |reload| drop(events.send(reload))).unwrap();

    // The first report is about a change: what was in force already is none.
    fs::write(&path, policy("second")).unwrap();
    let reload = reloads.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(reload, ReloadEvent::Loaded(_)), "{reload:?}");
    assert_eq!(in_force(&gate), "second");

    fs::write(&path, "limt = 5").unwrap();
    let reload = reloads.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(reload, ReloadEvent::Rejected(_)), "{reload:?}");
    assert_eq!(in_force(&gate), "second");

    fs::write(&path, policy("third")).unwrap();
    let reload = reloads.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(reload, ReloadEvent::Loaded(_)), "{reload:?}");
    assert_eq!(in_force(&gate), "third");
}

/// The watch's thread may come to read the file only after that.
#[test]
fn what_is_put_in_force_by_hand_stays_until_the_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("limits.toml");
    fs::write(&path, policy("first")).unwrap();
    let first = Policy::load(&path).unwrap().policy;
    let gate = Gate::new(first.clone()).unwrap();
    for _ in 0..4 {
        gate.replace(first.clone()).unwrap();
        let (events, reloads) = mpsc::channel();
        let watch = gate.watch_file(&path, move |reload| drop(events.send(reload))).unwrap();
        gate.replace(Policy::new()).unwrap();
        fs::write(&path, policy("second")).unwrap();
        match reloads.recv_timeout(DEADLINE).unwrap() {
            ReloadEvent::Loaded(loaded) => assert_eq!(loaded.policy.rules[0].name, "second"),
            other => panic!("{other:?}"),
        }
        drop(watch);
        fs::write(&path, policy("first")).unwrap();
    }
}

#[cfg(feature = "envoy")]
#[test]
fn an_envoy_file_is_followed_as_it_is_loaded() {
    let yaml = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ratelimit.yaml");
    fs::write(&path, yaml).unwrap();
    let (events, reloads) = mpsc::channel();
    let _watch = PolicyWatcher::start(&path, move |reload| drop(events.send(reload))).unwrap();
    let reload = reloads.recv_timeout(DEADLINE).unwrap();
    let ReloadEvent::Loaded(loaded) = reload else { panic!("{reload:?}") };
    assert_eq!(loaded.policy, Policy::load(&path).unwrap().policy);
}
