//! The text of a limit: every form that is read, how it is written, and what is said when wrong.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{CalendarUnit, Limit};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[track_caller]
fn reads(text: &str, limit: &Limit) {
    assert_eq!(text.parse().as_ref(), Ok(limit), "{text}");
}

#[track_caller]
fn writes(limit: &Limit, text: &str) {
    assert_eq!(limit.to_string(), text);
    reads(text, limit);
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    assert_eq!(text.parse::<Limit>().map_err(|error| error.to_string()), Err(message.to_owned()));
}

#[test]
fn a_token_bucket_is_a_count_and_a_period() {
    writes(&Limit::per_second(10), "10/s");
    writes(&Limit::per_minute(100), "100/min");
    writes(&Limit::per_hour(100), "100/h");
    writes(&Limit::per_day(100), "100/day");
    reads("100/min token_bucket", &Limit::per_minute(100));
}

#[test]
fn a_burst_is_written_exactly_when_it_was_given() {
    writes(&Limit::per_minute(100).burst(20), "100/min burst 20");
    reads("100/min burst 1_000", &Limit::per_minute(100).burst(1000));
}

#[test]
fn a_leaky_bucket_meters_unless_it_is_a_queue() {
    writes(&Limit::leaky_bucket(10, SECOND), "10/s leaky_bucket");
    reads("10/s leaky_bucket meter", &Limit::leaky_bucket(10, SECOND));
    writes(&Limit::leaky_queue(10, SECOND), "10/s leaky_bucket queue");
    writes(&Limit::leaky_queue(10, SECOND).burst(5), "10/s leaky_bucket queue burst 5");
}

#[test]
fn a_fixed_window_starts_at_the_epoch_unless_it_says_first() {
    writes(&Limit::fixed_window(5, MINUTE), "5/min fixed_window");
    reads("5/min fixed_window epoch", &Limit::fixed_window(5, MINUTE));
    writes(&Limit::fixed_window(5, MINUTE).starting_at_first_request(), "5/min fixed_window first");
    reads(
        "5/min fixed_window align first",
        &Limit::fixed_window(5, MINUTE).starting_at_first_request(),
    );
    reads("5/min first", &Limit::fixed_window(5, MINUTE).starting_at_first_request());
}

#[test]
fn a_sliding_window_is_named() {
    writes(&Limit::sliding_log(10, HOUR), "10/h sliding_log");
    writes(&Limit::sliding_counter(10, HOUR), "10/h sliding_counter");
}

#[test]
fn a_calendar_window_has_a_unit_and_perhaps_a_zone() {
    writes(&Limit::calendar(9, CalendarUnit::Minute), "9/min calendar");
    writes(&Limit::calendar(9, CalendarUnit::Day), "9/day calendar");
    writes(&Limit::calendar(9, CalendarUnit::Month), "9/month calendar");
    let paris = Limit::calendar(1000, CalendarUnit::Day).zone("Europe/Paris");
    writes(&paris, "1000/day calendar Europe/Paris");
    reads("1000/day fixed_window calendar Europe/Paris", &paris);
    reads("1000/day calendar Europe/Paris fixed_window", &paris);
    reads("9/day calendar fixed_window", &Limit::calendar(9, CalendarUnit::Day));
    reads("1000 per 1d align calendar Europe/Paris", &paris);
}

#[test]
fn a_rate_may_be_spaced_or_said_with_per() {
    for text in ["100/min", "100 / min", "100/ min", "100 /min", "100 per min", " 100\tPER\n min "]
    {
        reads(text, &Limit::per_minute(100));
    }
}

#[test]
fn words_are_read_in_any_case_and_with_a_hyphen() {
    reads("100/MIN Token_Bucket BURST 20", &Limit::per_minute(100).burst(20));
    reads("10/h sliding-log", &Limit::sliding_log(10, HOUR));
    reads("100/1H30M", &Limit::token_bucket(100, HOUR * 3 / 2));
}

#[test]
fn options_come_in_any_order() {
    reads("10/s burst 5 queue leaky_bucket", &Limit::leaky_queue(10, SECOND).burst(5));
}

#[test]
fn every_unit_has_its_words() {
    let units: [(&[&str], Duration); 6] = [
        (&["ms", "1000us", "1_000_000ns"], Duration::from_millis(1)),
        (&["s", "sec", "second", "seconds"], SECOND),
        (&["m", "min", "minute", "minutes"], MINUTE),
        (&["h", "hr", "hour", "hours"], HOUR),
        (&["d", "day", "days"], 24 * HOUR),
        (&["w", "week", "weeks"], 7 * 24 * HOUR),
    ];
    for (words, length) in units {
        for word in words {
            reads(&format!("3/{word}"), &Limit::token_bucket(3, length));
        }
    }
}

#[test]
fn a_period_is_written_in_the_fewest_words_that_are_exact() {
    let nanos = Duration::from_nanos(1);
    writes(&Limit::token_bucket(7, 90 * SECOND), "7/90s");
    writes(&Limit::token_bucket(3, HOUR * 3 / 2), "3/1h30m");
    writes(&Limit::token_bucket(1, SECOND / 2), "1/500ms");
    writes(&Limit::token_bucket(1, SECOND * 3 / 2), "1/1500ms");
    writes(&Limit::token_bucket(1, Duration::from_micros(1500)), "1/1500us");
    writes(&Limit::token_bucket(1, SECOND + nanos), "1/1000000001ns");
    writes(&Limit::token_bucket(1, 5 * MINUTE), "1/5m");
    writes(&Limit::token_bucket(1, 7 * 24 * HOUR), "1/week");
    writes(&Limit::token_bucket(1, 30 * 24 * HOUR), "1/30d");
    writes(&Limit::token_bucket(1, 25 * HOUR + nanos), "1/1d1h1ns");
}

#[test]
fn a_rate_must_be_complete() {
    refuses("", "limit is empty, write for example 100/min");
    refuses("100", r#""100" has no period, write for example 100/min"#);
    refuses("0.5", r#""0.5" has no period, write for example 100/min"#);
    refuses("100/", r#""100" has no period, write for example 100/min"#);
    refuses("100 burst 20", r#""100" has no period, write for example 100/min"#);
    refuses("many/min", r#"count "many" is not a number such as 100 or 0.5"#);
    refuses("-1/min", r#"count "-1" is not a number such as 100 or 0.5"#);
}

#[test]
fn a_wrong_period_is_named_with_its_place() {
    let units = "use ms, s, min, h, day, week";
    refuses("5/fortnight", &format!(r#"unknown unit "fortnight" in "5/fortnight", {units}"#));
    refuses("5/h30m", &format!(r#"unknown unit "h30m" in "5/h30m", {units}"#));
    refuses("5/1h30", r#""30" in "5/1h30" has no unit such as s or min"#);
    refuses("5/30m1h", r#""30m1h" must go from long units to short, each once"#);
    refuses("5/0.5ns", r#"period in "5/0.5ns" is finer than 1ns, use fewer decimals"#);
    refuses("5/1.2.3s", r#"period "1.2.3" is not a number such as 100 or 0.5"#);
}

#[test]
fn a_month_belongs_to_the_calendar() {
    refuses("5/month", r#"month in "5/month" needs calendar, or write 30d"#);
    refuses("0.5/month", r#"month in "0.5/month" needs calendar, or write 30d"#);
    refuses("5/2month", r#"month in "5/2month" must stand alone, as in 5/month"#);
}

#[test]
fn a_calendar_needs_a_whole_count_per_one_unit() {
    let right = "write a whole count per min, h, day, week or month";
    for rate in ["5/s", "5/2d", "5/24h", "5/30d", "0.5/month", "0.5/day"] {
        refuses(&format!("{rate} calendar"), &format!("{rate:?} cannot be calendar, {right}"));
    }
}

#[test]
fn an_unknown_word_is_named_with_the_nearest() {
    refuses("100/min brust 20", r#"unknown word "brust", did you mean "burst"?"#);
    refuses("100/min leakybucket", r#"unknown word "leakybucket", did you mean "leaky_bucket"?"#);
    let words = "burst, token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_counter, \
        meter, queue, align, epoch, first, calendar";
    refuses("100/min quickly", &format!(r#"unknown word "quickly", use {words}"#));
}

#[test]
fn an_option_needs_its_value() {
    let whole = "is not a whole number such as 20, below 2^64";
    refuses("5/s burst", &format!(r#"burst "" {whole}"#));
    refuses("5/s burst 2.5", &format!(r#"burst "2.5" {whole}"#));
    refuses("5/s burst 18446744073709551616", &format!(r#"burst "18446744073709551616" {whole}"#));
    refuses("5/s align", r#""align" must go before epoch, first or calendar"#);
    refuses("5/s align burst 5", r#""align" must go before epoch, first or calendar"#);
}

#[test]
fn an_option_is_given_at_most_once() {
    let another = |word, what| format!("{word:?} comes after another {what}, write only one");
    refuses("5/s burst 1 burst 2", &another("burst", "burst"));
    refuses("5/s token_bucket sliding_log", &another("sliding_log", "algorithm"));
    refuses("5/s leaky_bucket meter queue", &another("queue", "mode"));
    refuses("5/s first align epoch", &another("epoch", "align"));
}

#[test]
fn an_option_belongs_to_its_algorithm() {
    refuses("5/s queue", r#""queue" belongs to leaky_bucket, not to token_bucket"#);
    refuses("5/s sliding_log first", r#""first" belongs to fixed_window, not to sliding_log"#);
}

#[test]
fn numbers_too_large_are_refused_not_wrapped() {
    let most = "18446744073709551615";
    let count = "18446744073709551616/s";
    refuses(count, &format!("count in {count:?} is too large, at most {most}"));
    let long = "9".repeat(39);
    let many = "has too many digits, write at most 38";
    refuses(&format!("{long}/s"), &format!("count {long:?} {many}"));
    refuses(&format!("0.{long}/s"), &format!(r#"count "0.{long}" {many}"#));
    refuses(&format!("1/{long}s"), &format!("period {long:?} {many}"));
    let tiny = format!("0.{}1/w", "0".repeat(30));
    for rate in ["1/99999999999999999999w", "1/99999999999999999999999999999999w", &tiny] {
        refuses(rate, &format!("period in {rate:?} is too long, must be at most 100 years"));
    }
}

#[test]
fn a_text_that_reads_is_also_valid() {
    refuses("0/s", "count is 0, must be at least 1");
    for text in ["5/0s", "5/1ns", "5/60000d", "5/h sliding_log burst 2", "5/day calendar Nowhere"] {
        assert!(text.parse::<Limit>().is_err(), "{text}");
    }
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let text = format!("100/min{}", " ".repeat(250));
    refuses(&text, "limit is 257 bytes long, at most 256");
    reads(&text[..256], &Limit::per_minute(100));
}

#[test]
fn an_impossible_limit_can_still_be_written() {
    assert_eq!(Limit::token_bucket(0, Duration::ZERO).burst(0).to_string(), "0/0s burst 0");
    let longest =
        Limit::sliding_log(u64::MAX, Duration::MAX).starting_at_first_request().to_string();
    assert!(longest.ends_with("ns sliding_log first"), "{longest}");
}

fn counts() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..1_000_000_u64, any::<u64>()]
}

fn periods() -> impl Strategy<Value = Duration> + Clone {
    let nanos = vec![1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000];
    let units = prop::sample::select(nanos).prop_map(Duration::from_nanos);
    let spans = (units, 1..10_000_000_u32).prop_map(|(unit, many)| unit * many);
    let words = vec![SECOND, MINUTE, HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR];
    prop_oneof![spans, prop::sample::select(words)]
}

fn buckets_and_windows() -> impl Strategy<Value = Limit> {
    let kinds: [fn(u64, Duration) -> Limit; 7] = [
        Limit::token_bucket,
        Limit::leaky_bucket,
        Limit::leaky_queue,
        Limit::fixed_window,
        |count, window| Limit::fixed_window(count, window).starting_at_first_request(),
        Limit::sliding_log,
        Limit::sliding_counter,
    ];
    let limits = (prop::sample::select(kinds.to_vec()), counts(), periods())
        .prop_map(|(kind, count, period)| kind(count, period));
    prop_oneof![limits.clone(), (limits, counts()).prop_map(|(limit, burst)| limit.burst(burst))]
}

fn calendars() -> impl Strategy<Value = Limit> {
    use CalendarUnit::{Day, Hour, Minute, Month, Week};
    let units = prop::sample::select(vec![Minute, Hour, Day, Week, Month]);
    let limits = (counts(), units).prop_map(|(count, unit)| Limit::calendar(count, unit));
    let zones = vec!["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+5"];
    let zones = prop::sample::select(zones);
    prop_oneof![limits.clone(), (limits, zones).prop_map(|(limit, zone)| limit.zone(zone))]
}

fn valid_limits() -> impl Strategy<Value = Limit> {
    prop_oneof![3 => buckets_and_windows(), 1 => calendars()]
        .prop_filter("a valid limit", |limit| limit.validate().is_ok())
}

fn almost_limits() -> impl Strategy<Value = String> {
    let pieces = "([0-9._]{1,12}|/|per|[µa-z]{1,3}|ms|min|day|month|burst|align|first|queue|calendar\
        |leaky_bucket|fixed-window|UTC|99999999999999999999|\u{2003}| )";
    prop::collection::vec(prop_oneof![pieces, Just(" ".to_owned())], 0..12)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_valid_limit_reads_back_as_itself(limit in valid_limits()) {
        prop_assert_eq!(limit.to_string().parse(), Ok(limit));
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Limit>();
    }

    #[test]
    fn what_almost_is_a_limit_is_refused_or_reads_back_as_itself(
        text in almost_limits(), count in 0..100_u64
    ) {
        for text in [format!("{count}/{text}"), format!("{count}/day {text}"), text] {
            if let Ok(limit) = text.parse::<Limit>() {
                prop_assert_eq!(limit.to_string().parse(), Ok(limit));
            }
        }
    }
}

#[cfg(feature = "serde")]
mod serde {
    use super::*;

    #[track_caller]
    fn reads_table(table: &str, text: &str) {
        reads(text, &serde_json::from_str(table).expect("the table is a limit"));
    }

    #[track_caller]
    fn refuses_json(json: &str, message: &str) {
        // By way of a value, which adds no line and column to the message.
        let value = serde_json::from_str(json).expect("the test writes json");
        let read = serde_json::from_value::<Limit>(value).map_err(|error| error.to_string());
        assert_eq!(read, Err(message.to_owned()));
    }

    proptest! {
        #[test]
        fn a_limit_is_written_as_its_text_and_read_back(limit in valid_limits()) {
            let json = serde_json::to_string(&limit).expect("text can always be written");
            prop_assert_eq!(&json, &format!("\"{limit}\""));
            prop_assert_eq!(serde_json::from_str::<Limit>(&json).expect("reads back"), limit);
        }
    }

    #[test]
    fn a_table_means_the_same_as_a_text() {
        let bucket = r#"{"algorithm": "token_bucket", "count": 100, "per": "1m", "burst": 20}"#;
        reads_table(bucket, "100/min burst 20");
        let queue = r#"{"algorithm": "leaky_bucket", "mode": "queue", "count": 9, "per": "1s"}"#;
        reads_table(queue, "9/s leaky_bucket queue");
        let first = r#"{"algorithm": "Fixed-Window", "count": 5, "per": "60s", "align": "first"}"#;
        reads_table(first, "5/min fixed_window first");
    }

    #[test]
    fn a_table_without_an_algorithm_is_a_token_bucket_or_with_align_a_fixed_window() {
        reads_table(r#"{"count": 100, "per": "1m"}"#, "100/min");
        reads_table(r#"{"count": 5, "per": "1m", "align": "epoch"}"#, "5/min fixed_window");
        let paris = r#"{"count": 9, "per": "day", "align": "calendar", "zone": "Europe/Paris"}"#;
        reads_table(paris, "9/day calendar Europe/Paris");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_known_ones() {
        let keys = "`algorithm`, `mode`, `count`, `per`, `burst`, `align`, `zone`";
        let message = format!("unknown field `brust`, expected one of {keys}");
        refuses_json(r#"{"count": 5, "per": "1s", "brust": 2}"#, &message);
    }

    #[test]
    fn a_wrong_word_is_refused_with_the_right_ones() {
        let refuses_key = |key: &str, words: &str| {
            let table = format!(r#"{{"count": 5, "per": "1s", "{key}": "burst"}}"#);
            refuses_json(&table, &format!("unknown {key} \"burst\", use {words}"));
        };
        let algorithms = "token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_counter";
        refuses_key("algorithm", algorithms);
        refuses_key("mode", "meter, queue");
        refuses_key("align", "epoch, first, calendar");
    }

    #[test]
    fn a_table_is_checked_like_a_text() {
        refuses_json(r#"{"count": 0, "per": "1s"}"#, "count is 0, must be at least 1");
        refuses_json(r#"{"count": 5}"#, "missing field `per`");
        let empty = r#""5/" has no period, write for example 100/min"#;
        refuses_json(r#"{"count": 5, "per": ""}"#, empty);
        let mode = r#""queue" belongs to leaky_bucket, not to token_bucket"#;
        refuses_json(r#"{"count": 5, "per": "1s", "mode": "queue"}"#, mode);
    }

    #[test]
    fn a_wrong_text_says_the_same_in_a_configuration() {
        refuses_json(r#""9/s brust 20""#, r#"unknown word "brust", did you mean "burst"?"#);
        let expected = r#"a limit such as "100/min" or a table with count and per"#;
        refuses_json("100", &format!("invalid type: integer `100`, expected {expected}"));
    }
}
