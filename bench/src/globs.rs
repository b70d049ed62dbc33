//! Lists of many globs: what a check of one long value takes, and how long a large list loads.

use std::hint::black_box;
use std::time::Instant;

use tollgate::{Condition, Gate, Glob, Limit, ListEntry, Policy, Request, Rule};

use crate::measure::quantile;

/// The bytes of the value.
const VALUE: usize = 4000;

const GLOBS: [usize; 4] = [10, 100, 1000, 10_000];

/// How the globs of a list look.
#[derive(Clone, Copy)]
enum GlobShape {
    /// `*word*`
    Word,
    /// `*word*word*`, of which the value has the first of each.
    TwoWords,
    /// `*wo?d*`
    QuestionMark,
}

/// Prints the time of a check that is denied by none of the globs of a list.
pub(crate) fn run(rounds: usize) {
    println!("A deny list of globs, a value of {VALUE} bytes: microseconds of a check");
    println!("{:<14} {:>10} {:>14} {:>10}", "globs", "*word*", "*word*word*", "*wo?d*");
    for count in GLOBS {
        let [word, two_words, question_mark] =
            [GlobShape::Word, GlobShape::TwoWords, GlobShape::QuestionMark]
                .map(|shape| micros(&gate(globs(count, shape)), rounds));
        println!("{count:<14} {word:>10.1} {two_words:>14.1} {question_mark:>10.1}");
    }
    let long: Vec<Glob> = (0..10_000).map(long_glob).collect();
    let began = Instant::now();
    let gate = gate(long);
    let loaded = began.elapsed().as_millis();
    let check = micros(&gate, rounds);
    println!("10,000 globs of 1,000 bytes: loaded in {loaded} ms, a check takes {check:.1} us");
}

/// A word that no other number has.
fn word(number: usize) -> String {
    format!("w{:05x}d", number * 7919 % 0xf_ffff)
}

fn globs(count: usize, shape: GlobShape) -> Vec<Glob> {
    let text = |number| match shape {
        GlobShape::Word => format!("*{}*", word(number)),
        GlobShape::TwoWords => format!("*{}*{}*", word(20_000 + number), word(number)),
        GlobShape::QuestionMark => format!("*{}?x*", word(number)),
    };
    (0..count).map(|number| Glob::new(text(number))).collect()
}

fn long_glob(number: usize) -> Glob {
    let words: Vec<String> = (0..125).map(|part| word(number * 125 + part)).collect();
    Glob::new(format!("*{}", words.join("*")))
}

fn gate(globs: Vec<Glob>) -> Gate {
    let list = ListEntry::new("words").matches("text", Condition::Glob(globs));
    let rule = Rule::new("per-user").key(["user"]).limit(Limit::per_second(1_000_000_000));
    Gate::new(Policy::new().rule(rule).deny(list)).expect("the policy is valid")
}

/// The median time of a check.
fn micros(gate: &Gate, rounds: usize) -> f64 {
    let words = (20_000..).map(word).flat_map(|word| [word, " ".to_owned()]);
    let value: String = words.flat_map(String::into_bytes).map(char::from).take(VALUE).collect();
    let request = Request::new().with("user", "ana").with("text", &value);
    let times = (0..rounds * 20).map(|_| {
        let began = Instant::now();
        assert!(black_box(gate.check(&request)).is_allowed());
        began.elapsed().as_secs_f64() * 1e6
    });
    quantile(&times.collect::<Vec<f64>>(), 0.5)
}
