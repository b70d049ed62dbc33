//! A measurement of a large file. `cargo test --release -p tollgate --features file --test it
//! speed -- --ignored --nocapture` prints, for each of four rounds, the size of the file, the time to
//! read it, and the time until it is active in a gate.

use std::fmt::Write as _;
use std::time::Instant;

use tollgate::{Gate, Policy};

/// A policy of 10,000 rules and 100,000 overrides.
fn large() -> String {
    let mut text = String::new();
    for number in 0..10_000 {
        let matching = match number % 4 {
            0 => format!("{{ route = \"/route/{number}\" }}"),
            1 => format!(
                "{{ route = {{ prefix = \"/prefix/{number}/\" }}, method = [\"POST\", \"PUT\"] }}"
            ),
            2 => format!("{{ ip = {{ cidr = \"10.{}.{}.0/24\" }} }}", number / 256, number % 256),
            _ => format!(
                "{{ route = {{ glob = \"/glob/{number}/*\" }}, tenant = {{ present = true }} }}"
            ),
        };
        let _ = write!(
            text,
            "[[rule]]\nname = \"rule-{number}\"\nmatch = {matching}\nkey = [\"user\"]\nlimits = [\"{}/s burst 20\", \"1000/h sliding_log\"]\ntiers = {{ pro = \"1000/s\" }}\n\n",
            number % 100 + 1,
        );
    }
    for number in 0..100_000 {
        let change = match number % 2 {
            0 => "tier = \"pro\"".to_owned(),
            _ => format!("limits = {{ rule-{} = \"500/min\" }}", number % 10_000),
        };
        let _ = write!(text, "[[override]]\nclient = {{ user = \"user-{number}\" }}\n{change}\n\n");
    }
    text
}

#[test]
#[ignore = "a measurement, for a release build"]
fn long_load_of_a_policy_of_10_000_rules_and_100_000_overrides() {
    let text = large();
    for round in ["first", "again", "again", "again"] {
        let began = Instant::now();
        let loaded = Policy::from_toml("large.toml", &text).unwrap();
        let read = began.elapsed();
        assert_eq!((loaded.policy.rules.len(), loaded.policy.overrides.len()), (10_000, 100_000));
        let _gate = Gate::new(loaded.policy).unwrap();
        println!(
            "{round}: {} bytes, read in {read:?}, in force after {:?}",
            text.len(),
            began.elapsed()
        );
    }
}
