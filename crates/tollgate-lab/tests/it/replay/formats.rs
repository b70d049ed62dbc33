//! Every format, to the byte.

use std::io::Write;

use tollgate_lab::replay::{Failure, Format, Report, Settings, Template};

use super::{run, settings, telling, values};
use crate::shown::golden;

const ALL: [&str; 12] = [
    "ip", "ident", "user", "method", "path", "query", "url", "protocol", "status", "bytes",
    "referer", "agent",
];

#[test]
fn a_common_line_is_read_in_all_its_parts() {
    let line =
        "203.0.113.9 - ana [16/Nov/2026:10:13:50 +0000] \"GET /a/b?q=1&r=? HTTP/1.1\" 200 512\n";
    let read = values("", line, &ALL, &[]);
    let expected = [
        "203.0.113.9",
        "absent",
        "ana",
        "GET",
        "/a/b",
        "q=1&r=?",
        "/a/b?q=1&r=?",
        "HTTP/1.1",
        "200",
        "512",
        "absent",
        "absent",
    ];
    assert_eq!(read, expected);
}

#[test]
fn a_combined_line_has_a_referer_and_an_agent_and_may_have_more() {
    let line = "::1 id a b [16/Nov/2026:10:13:50 +0000] \"POST / HTTP/2.0\" 302 - \"https://x/?a\" \"curl/8 (\\\"quoted\\\")\" 0.012 \"more\"\n";
    let read = values("", line, &ALL, &[]);
    let expected = [
        "::1",
        "id",
        "a b",
        "POST",
        "/",
        "absent",
        "/",
        "HTTP/2.0",
        "302",
        "absent",
        "https://x/?a",
        "curl/8 (\"quoted\")",
    ];
    assert_eq!(read, expected);
}

#[test]
fn what_servers_escape_is_read_as_it_was() {
    let line = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET /\\xc3\\xa4\\\"\\\\\\x22\\t\\xff\\xzz HTTP/1.1\" 200 1\n";
    assert_eq!(values("", line, &["path"], &[]), ["/ä\"\\\"\t\u{fffd}\\xzz"]);
}

#[test]
fn a_request_that_is_none_is_one_of_which_little_is_known() {
    for request in ["-", "", "\\x16\\x03\\x01", "GARBAGE", " ", "GET ", " / HTTP/1.1"] {
        let line = format!(
            "203.0.113.9 - - [16/Nov/2026:10:13:50 +0000] \"{request}\" 400 0 \"-\" \"-\"\n"
        );
        let read = values("", &line, &["ip", "method", "path", "status", "agent"], &[]);
        assert_eq!(read, ["203.0.113.9", "absent", "absent", "400", "absent"], "{request:?}");
    }
    let old = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET /a b\" 200 1\n";
    assert_eq!(values("", old, &["method", "path", "protocol"], &[]), ["GET", "/a b", "absent"]);
}

#[test]
fn json_fields_are_found_by_name_by_another_name_and_by_path() {
    let line = r#"{"ts":1794824030.5,"remote_addr":"::1","auth":{"sub":"u\u00e4\"","n":[1]},"n":7,"ok":true,"no":null,"request":{"uri":"/a?b","method":"PUT"},"deep":{"x":1}}"#;
    let attributes = ["ip", "user", "path", "method", "n", "ok", "no", "deep", "status"];
    let read = values("", &format!("{line}\n"), &attributes, &[("user", ".auth.sub")]);
    let expected = ["::1", "uä\"", "/a", "PUT", "7", "true", "absent", "absent", "absent"];
    assert_eq!(read, expected);
}

#[test]
fn of_json_fields_an_attributes_own_name_counts_before_others_and_the_last_of_one_name() {
    let line =
        r#"{"client_ip":"2","time":"2026-11-16T10:13:50Z","ip":"0","ip":"1","remote_addr":"3"}"#;
    assert_eq!(values("", &format!("{line}\n"), &["ip"], &[]), ["1"]);
    assert_eq!(values("", &format!("{line}\n"), &["ip"], &[("ip", "remote_addr")]), ["3"]);
}

#[test]
fn numbers_in_json_are_read_as_they_are_written() {
    let line = r#"{"time":"1794824030","a":18446744073709551616,"b":1.50,"c":-0,"d":1E5}"#;
    let read = values("", &format!("{line}\n"), &["a", "b", "c", "d"], &[]);
    assert_eq!(read, ["18446744073709551616", "1.50", "-0", "1E5"]);
}

#[test]
fn columns_are_named_by_the_header() {
    let comma = ("time,ip,\"user\",uri\n", "2026-11-16T10:13:50Z,::1,\"a, \"\"b\"\"\",/x?y\n");
    let semicolon = ("time;ip;user;uri\n", "2026-11-16 10:13:50;::1;\"a, \"\"b\"\"\";\"/x?y\"\n");
    let tab = ("\u{feff}time\tip\tuser\turi\r\n", "1794824030\t::1\t\"a, \"\"b\"\"\"\t/x\r\n");
    for (header, line) in [comma, semicolon, tab] {
        let read = values(header, line, &["ip", "user", "path", "host"], &[]);
        assert_eq!(read, ["::1", "a, \"b\"", "/x", "absent"], "{header:?}");
    }
    let mapped =
        values("when,who\n", "1794824030,ana\n", &["user"], &[("time", "when"), ("user", "who")]);
    assert_eq!(mapped, ["ana"]);
}

#[test]
fn a_route_is_the_first_template_that_fits_or_the_path() {
    let line = |path: &str| {
        format!("::1 - - [16/Nov/2026:10:13:50 +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let routes =
        ["/users/{id}", "/users/{id}/posts/{*rest}"].map(|text| Template::new(text).unwrap());
    let settings = Settings { routes: routes.to_vec(), ..Settings::default() };
    for (path, route) in [
        ("/users/42?x=1", "/users/{id}"),
        ("/users/42/posts/1/2", "/users/{id}/posts/{*rest}"),
        ("/health", "/health"),
    ] {
        let log = line(path).repeat(2);
        let report = run(log, &telling(&["route"]), &settings).unwrap();
        assert_eq!(report.clients.top[0].key[0].1, route);
    }
    let json = "{\"time\":\"1794824030\",\"route\":\"own\",\"path\":\"/users/1\"}\n".repeat(2);
    let report = run(json, &telling(&["route"]), &settings).unwrap();
    assert_eq!(report.clients.top[0].key[0].1, "own");
}

#[test]
fn the_cost_is_read_from_a_field() {
    let log = "{\"time\":\"1794824030\",\"units\":3}\n{\"time\":\"1794824030\",\"units\":\"2\"}\n{\"time\":\"1794824030\"}\n{\"time\":\"1794824030\",\"units\":1.5}\n{\"time\":\"1794824030\",\"units\":0}\n{\"time\":\"1794824030\",\"units\":99}\n";
    let rule = tollgate::Rule::new("all").limit(tollgate::Limit::per_day(5));
    let policy = tollgate::Policy::new().rule(rule);
    let report = run(log, &policy, &settings(&[("cost", "units")])).unwrap();
    // Costs of 3, 2 and 0 pass. One unit more does not, and 99 is an invalid cost.
    assert_eq!((report.allowed, report.refused, report.wrong), (3, 1, 1));
    assert_eq!(report.malformed.lines, 1);
    assert_eq!(report.malformed.first[0].line, 4);
}

#[test]
fn compression_is_found_by_how_a_log_begins() {
    let line = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let gzip = |text: &str| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(text.as_bytes()).unwrap();
        to.finish().unwrap()
    };
    let zstd = |text: &str| {
        ruzstd::encoding::compress_to_vec(
            text.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        )
    };
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let many = line.repeat(1500);
    let logs = [
        many.clone().into_bytes(),
        gzip(&many),
        [gzip(&many[..70_001]), gzip(&many[70_001..])].concat(),
        zstd(&many),
        [&zstd(&many[..70_001])[..], &skipped, &zstd(&many[70_001..])].concat(),
    ];
    for log in logs {
        let report = run(&log, &telling(&["ip"]), &Settings::default()).unwrap();
        assert_eq!((report.lines, report.requests, report.malformed.lines), (1500, 1500, 0));
        assert_eq!(report.bytes, log.len() as u64);
    }
    let damaged = &gzip(&many)[..200];
    let failed = run(damaged, &telling(&["ip"]), &Settings::default());
    assert!(matches!(failed, Err(Failure::Log(_, _))), "{failed:?}");
    let failed = run(&zstd(&many)[..20], &telling(&["ip"]), &Settings::default());
    assert!(matches!(failed, Err(Failure::Log(_, _))), "{failed:?}");
}

/// A zstd frame of one raw block whose header asks for a window of `2^log + eighths × 2^(log - 3)`
/// bytes.
fn zstd_frame(log: u8, eighths: u8, text: &str) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, ((log - 10) << 3) | eighths];
    let last_raw_block = ((text.len() as u64) << 3) | 1;
    frame.extend(&last_raw_block.to_le_bytes()[..3]);
    frame.extend(text.as_bytes());
    frame
}

/// A zstd frame of one raw block in a single segment of `length` bytes, which is its window.
fn zstd_segment(length: u64, text: &str) -> Vec<u8> {
    // The window byte is replaced by a length of eight bytes.
    let mut frame = zstd_frame(10, 0, text);
    frame[4] = 0b1110_0000;
    frame.splice(5..6, length.to_le_bytes());
    frame
}

#[test]
fn zstd_windows_over_128_mib_are_rejected_in_every_frame() {
    let line = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let small = zstd_frame(10, 0, line);
    let segment = zstd_segment(line.len() as u64, line);
    let largest = zstd_frame(27, 0, line);
    for log in [
        largest.clone(),
        segment.clone(),
        [&small[..], &largest, &segment, &largest, &small].concat(),
    ] {
        let report = run(&log, &telling(&["ip"]), &Settings::default()).unwrap();
        assert_eq!(report.malformed.lines, 0);
        assert_eq!(report.bytes, log.len() as u64);
        assert!(matches!(report.lines, 1 | 5), "{}", report.lines);
    }
    for too_large in [
        zstd_frame(27, 1, line),
        zstd_frame(32, 0, line),
        zstd_frame(41, 7, line),
        zstd_segment((128 << 20) + 1, line),
        zstd_segment(u64::MAX, line),
    ] {
        for log in [too_large.clone(), [&small[..], &too_large].concat()] {
            let failed = run(&log, &telling(&["ip"]), &Settings::default()).unwrap_err();
            let Failure::Log(_, error) = failed else { panic!("{failed:?}") };
            let expected = "MiB, must be at most 128 MiB";
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
    // A header that ends early is an error too.
    for length in 1..small.len() {
        let cut = [&small[..], &small[..length]].concat();
        let failed = run(&cut, &telling(&["ip"]), &Settings::default());
        assert!(matches!(failed, Err(Failure::Log(_, _))), "{length}: {failed:?}");
    }
}

#[test]
fn a_format_is_found_out_or_asked_for() {
    let logs = [
        ("\n\n::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1\n", "common"),
        ("started\n{\"time\":\"1794824030\"}\n", "json"),
        ("time,ip\n1794824030,::1\n", "csv"),
        ("time\tip\n1794824030\t::1\n", "tsv"),
    ];
    for (log, format) in logs {
        let report = run(log, &telling(&["ip"]), &Settings::default()).unwrap();
        assert_eq!((report.formats, report.requests), (vec![format.to_owned()], 1), "{log}");
    }
    let failed = run("what is this\n", &telling(&["ip"]), &Settings::default());
    assert!(matches!(failed, Err(Failure::Mistake(_))), "{failed:?}");
    let as_json = Settings { format: Some(Format::Json), ..Settings::default() };
    let report = run("what is this\n", &telling(&["ip"]), &as_json).unwrap();
    assert_eq!((report.requests, report.malformed.lines), (0, 1));
}

#[test]
fn a_field_that_is_not_there_is_told_with_those_that_are() {
    let common = "::1 - - [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let cases = [
        (common, ("user", "sub")),
        ("time,ip\n1,2\n", ("user", "sub")),
        (common, ("usr", "user")),
        ("when,ip\n1,2\n", ("user", "ip")),
    ];
    let mut messages = String::new();
    let mut add = |failed: Result<Report, Failure>| {
        let Err(Failure::Mistake(message)) = failed else { panic!("{failed:?}") };
        messages += &format!("{message}\n");
    };
    for (log, field) in cases {
        add(run(log, &telling(&["ip", "user"]), &settings(&[field])));
    }
    let csv = Settings { format: Some(Format::Csv), ..Settings::default() };
    add(run("when,ip\n1,2\n", &telling(&["ip"]), &csv));
    add(run("what is this\n", &telling(&["ip"]), &Settings::default()));
    add(run("# of server 7\n".repeat(50), &telling(&["ip"]), &Settings::default()));
    golden("replay-mistakes.txt", &messages);
}

#[test]
fn a_json_field_that_is_absent_does_not_hide_one_of_another_name() {
    for absent in ["null", "\"\"", "\"-\"", "{\"id\":7}", "[1]"] {
        for line in [
            format!(
                "{{\"time\":{absent},\"ts\":1794824030,\"user\":{absent},\"user_id\":\"42\"}}\n"
            ),
            format!(
                "{{\"user_id\":\"42\",\"user\":{absent},\"ts\":1794824030,\"time\":{absent}}}\n"
            ),
        ] {
            assert_eq!(values("", &line, &["user"], &[]), ["42"], "{line}");
        }
    }
    let both = "{\"ts\":1794824030,\"user_id\":\"42\",\"user\":\"ana\"}\n";
    assert_eq!(values("", both, &["user"], &[]), ["ana"]);
}

#[test]
fn a_common_line_may_begin_with_the_virtual_host() {
    let attributes = ["host", "ip", "ident", "user", "path", "agent"];
    let rest = "[16/Nov/2026:10:13:50 +0000] \"GET /a HTTP/1.1\" 200 512 \"-\" \"curl/8\"\n";
    let cases = [
        (
            "www.example.com:443 203.0.113.9 - -",
            ["www.example.com", "203.0.113.9", "absent", "absent"],
        ),
        (
            "www.example.com:80 2001:db8::1 - ana b",
            ["www.example.com", "2001:db8::1", "absent", "ana b"],
        ),
        ("www.example.com 203.0.113.9 - ana", ["www.example.com", "203.0.113.9", "absent", "ana"]),
        (
            "www.example.com:80 client.example id ana",
            ["www.example.com", "client.example", "id", "ana"],
        ),
        ("192.0.2.1:80 203.0.113.9 - -", ["192.0.2.1", "203.0.113.9", "absent", "absent"]),
        // No virtual host, but a user with a space.
        ("203.0.113.9 - ana b", ["absent", "203.0.113.9", "absent", "ana b"]),
        ("::1 id ana b", ["absent", "::1", "id", "ana b"]),
        ("203.0.113.9:5123 - ana b", ["absent", "203.0.113.9", "absent", "ana b"]),
        ("client.example - ana b", ["absent", "client.example", "absent", "ana b"]),
        ("client.example:5123 - ana b", ["absent", "client.example:5123", "absent", "ana b"]),
    ];
    for (start, expected) in cases {
        let read = values("", &format!("{start} {rest}"), &attributes, &[]);
        assert_eq!(read[..4], expected, "{start}");
        assert_eq!(read[4..], ["/a", "curl/8"], "{start}");
    }
}

#[test]
fn an_empty_column_hides_no_other_that_says_the_same() {
    let header = "time,user,remote_user,uri,request_uri\n";
    let found = |line: &str| values(header, line, &["user", "path"], &[]);
    assert_eq!(found("1794824030,,ana,/a?x=1,/b\n"), ["ana", "/a"]);
    assert_eq!(found("1794824030,-,ana,-,/b?y\n"), ["ana", "/b"]);
    assert_eq!(found("1794824030,bob,ana,/a,\n"), ["bob", "/a"]);
    assert_eq!(found("1794824030,,,/a,\n"), ["absent", "/a"]);
    // The time, too.
    let times = values("time,ts,ip\n", ",1794824030,::1\n", &["ip"], &[]);
    assert_eq!(times, ["::1"]);
}

#[test]
fn a_log_that_begins_with_what_cannot_be_read_is_read_on() {
    let banner = "# of server 7, do not edit\n".repeat(50);
    for line in [
        "203.0.113.9 - ana [16/Nov/2026:10:13:50 +0000] \"GET / HTTP/1.1\" 200 5\n",
        "{\"time\": 1794824030, \"ip\": \"::1\"}\n",
    ] {
        let log = format!("{banner}{line}");
        let report = run(&log, &telling(&["ip"]), &Settings::default()).expect("it is readable");
        assert_eq!((report.requests, report.malformed.lines), (1, 50), "{line}");
    }
    // Where the format is said, also where nothing at all can be read.
    let said = Settings { format: Some(Format::Common), ..Settings::default() };
    let report = run(&banner, &telling(&["ip"]), &said).expect("the format is said");
    assert_eq!((report.requests, report.malformed.lines), (0, 50));
    let failed = run(&banner, &telling(&["ip"]), &Settings::default());
    assert!(matches!(failed, Err(Failure::Mistake(_))), "{failed:?}");
}
