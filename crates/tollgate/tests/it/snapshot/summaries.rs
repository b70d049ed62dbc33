//! What a snapshot says of itself, and what is left of it after a long time.

use std::io;
use std::time::Duration;

use tollgate::{
    BlockPolicy, Client, Gate, Limit, ManualClock, MemoryStore, Override, OverrideRemoval, Policy,
    Request, Rule, SnapshotSummary,
};

use super::{builder, bytes_of};

const HOUR: Duration = Duration::from_secs(3600);

fn policy() -> Policy {
    let block = BlockPolicy::fixed(HOUR / 2);
    Policy::new()
        .rule(Rule::new("api").key(["user"]).limit(Limit::per_day(5)))
        .rule(Rule::new("login").key(["ip"]).limit(Limit::per_day(1)).block(block))
}

fn own_limit(user: &str) -> Override {
    Override::new("user", user).limits("api", Limit::per_day(50))
}

fn summary(store: &MemoryStore) -> SnapshotSummary {
    store.snapshot(io::sink()).expect("a sink takes all")
}

/// The numbers of keys, blocks and overrides.
fn counts(summary: &SnapshotSummary) -> [usize; 3] {
    [summary.keys(), summary.blocks(), summary.overrides()]
}

#[test]
fn summary_has_the_time_and_the_numbers_of_what_was_written_and_of_what_was_read() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    assert!(store.restored().is_none());
    let gate = Gate::with_store(store.clone(), policy()).unwrap();
    for user in ["ana", "ben", "eve"] {
        assert!(gate.check(&Request::new().with("user", user)).is_allowed());
    }
    gate.block("api", &["zoe"], HOUR).unwrap();
    gate.set_override(own_limit("ana")).unwrap();
    gate.set_override(own_limit("ben")).unwrap();

    let mut bytes = Vec::new();
    let written = store.snapshot(&mut bytes).unwrap();
    assert_eq!((written.taken_at(), counts(&written)), (clock.now(), [3, 1, 2]));
    clock.advance(HOUR / 60);
    let restored = builder(&clock).restore(&*bytes).unwrap();
    let read = restored.restored().expect("it is restored");
    assert_eq!((read.taken_at(), counts(read)), (written.taken_at(), [3, 1, 2]));
    assert!(read.has_same_content(&written));
}

#[test]
fn override_that_ends_while_the_server_is_down_does_not_come_back() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let gate = Gate::with_store(store.clone(), policy()).unwrap();
    gate.set_override(own_limit("ana").until(clock.now().saturating_add(HOUR))).unwrap();
    gate.set_override(own_limit("ben").until(clock.now().saturating_add(2 * HOUR))).unwrap();
    gate.block("api", &["zoe"], HOUR).unwrap();
    let bytes = bytes_of(&store);
    assert_eq!(counts(&summary(&store)), [0, 1, 2]);

    clock.advance(HOUR);
    let restored = builder(&clock).restore(&*bytes).unwrap();
    assert_eq!(counts(restored.restored().expect("it is restored")), [0, 0, 1]);
    let gate = Gate::with_store(restored.clone(), policy()).unwrap();
    let limit = |user| gate.check(&Request::new().with("user", user)).limit();
    assert_eq!(["ana", "ben", "zoe"].map(limit), [5, 50, 5]);
    assert_eq!(gate.overrides().len(), 1);
    clock.advance(HOUR);
    assert_eq!(limit("ben"), 5);
}

#[test]
fn every_change_of_state_changes_the_content_and_time_alone_does_not() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let gate = Gate::with_store(store.clone(), policy()).unwrap();
    let ana = Request::new().with("user", "ana");
    let from = Request::new().with("ip", "203.0.113.9");
    let client = Client::from([("user".to_owned(), "ana".to_owned())]);
    let changes: [(&str, &dyn Fn()); 11] = [
        ("a check", &|| assert!(gate.check(&ana).is_allowed())),
        ("a second check", &|| assert!(gate.check(&ana).is_allowed())),
        ("a refund", &|| gate.refund(&ana)),
        ("the check before a block", &|| assert!(gate.check(&from).is_allowed())),
        ("an automatic block", &|| assert!(!gate.check(&from).is_allowed())),
        ("a manual block", &|| assert!(gate.block("api", &["ana"], HOUR).unwrap())),
        ("an unblock", &|| assert!(gate.unblock("api", &["ana"]))),
        ("an override", &|| gate.set_override(own_limit("ana")).unwrap()),
        ("an override with an end", &|| {
            let change = own_limit("ana").until(clock.now().saturating_add(HOUR));
            gate.set_override(change).unwrap();
        }),
        ("no override", &|| {
            assert_eq!(gate.remove_override(&client), OverrideRemoval::Removed);
        }),
        ("a reset", &|| assert!(gate.reset("api", &["ana"]))),
    ];
    let mut before = summary(&store);
    for (name, change) in changes {
        clock.advance(Duration::from_millis(1));
        let _ = gate.peek(&ana);
        store.reclaim();
        let unchanged = summary(&store);
        assert!(unchanged.has_same_content(&before), "time and a peek before {name}");
        change();
        let after = summary(&store);
        assert!(!after.has_same_content(&before), "{name}");
        before = after;
    }
}

#[test]
fn reservation_that_times_out_changes_the_content() {
    let clock = ManualClock::new();
    let store = builder(&clock).build().unwrap();
    let limiter = store.limiter("api", Limit::per_day(5)).unwrap();
    let empty = summary(&store);
    let reservation = limiter.reserve("ana", 2).unwrap();
    let reserved = summary(&store);
    assert_eq!((counts(&reserved), reserved.has_same_content(&empty)), ([1, 0, 0], false));
    clock.advance(HOUR);
    assert!(!summary(&store).has_same_content(&reserved));
    drop(reservation);
}

/// A disk without room: nothing can be written to it.
struct FullDisk;

impl io::Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn snapshot_whose_last_bytes_stay_in_a_buffer_is_an_error() {
    let store = MemoryStore::builder().build().expect("the default bound is valid");
    let buffered = io::BufWriter::with_capacity(1 << 20, FullDisk);
    let error = store.snapshot(buffered).expect_err("nothing was written");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
