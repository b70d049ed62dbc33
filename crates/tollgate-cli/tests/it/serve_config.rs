//! Where the server's settings come from, and what is said of wrong ones.

use std::collections::BTreeMap;

use crate::support::{Folder, Said, assert_golden, assert_transcript};
use serde_json::Value;

const RULE: &str = "[[rule]]\nname = \"own\"\nkey = [\"user\"]\nlimit = \"5/h\"\n";

fn print_config(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let arguments: Vec<&str> =
        ["serve", "--print-config"].into_iter().chain(arguments.iter().copied()).collect();
    folder.tollgate_with(variables, &arguments)
}

/// The settings of `--print-config --json`: their values and where each is from.
fn settings(said: &Said) -> BTreeMap<String, (Value, Value)> {
    let json = said.json();
    let all = json["settings"].as_array().unwrap_or_else(|| panic!("{}", said.err)).iter();
    let entry = |setting: &Value| {
        let name = setting["name"].as_str().expect("a name").to_owned();
        (name, (setting["value"].clone(), setting["from"].clone()))
    };
    all.map(entry).collect()
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let folder = Folder::with(&[("t.toml", "[server]\nhttp = \"127.0.0.1:1\"\nmax_keys = 10\n")]);
    let http = |variables: &[(&str, &str)], arguments: &[&str]| {
        let arguments: Vec<_> = ["--json"].into_iter().chain(arguments.iter().copied()).collect();
        let (value, from) = settings(&print_config(&folder, variables, &arguments))["http"].clone();
        (value.as_str().unwrap().to_owned(), from.as_str().unwrap().to_owned())
    };
    let pair = |value: &str, from: &str| (value.to_owned(), from.to_owned());
    let variable = [("TOLLGATE_HTTP", "127.0.0.1:2")];
    let flag = ["--config", "t.toml", "--http", "127.0.0.1:3"];
    assert_eq!(http(&[], &[]), pair("127.0.0.1:8080", "default"));
    assert_eq!(http(&[], &flag[..2]), pair("127.0.0.1:1", "t.toml:2"));
    assert_eq!(http(&variable, &flag[..2]), pair("127.0.0.1:2", "TOLLGATE_HTTP"));
    assert_eq!(http(&variable, &flag), pair("127.0.0.1:3", "--http"));
    let by_name = [("TOLLGATE_CONFIG", "t.toml"), ("TOLLGATE_HTTP", "")];
    assert_eq!(http(&by_name, &[]), pair("127.0.0.1:1", "t.toml:2"), "an empty variable is none");
}

#[test]
fn print_config_shows_defaults_and_files_and_flags_as_toml_and_as_json() {
    let server = "[server]\nhttp = \"127.0.0.1:1\"\nheaders = \"x-delta\"\n";
    let folder = Folder::with(&[("t.toml", &format!("{server}{RULE}"))]);
    let flags =
        ["--config", "t.toml", "--http", "off", "--tls-cert", "c.pem", "--tls-key", "k.pem"];
    for (name, arguments) in [("defaults", &[][..]), ("file_and_flags", &flags)] {
        let json = [arguments, &["--json"]].concat();
        for (format, arguments) in [("", arguments), ("_json", &json)] {
            let said = print_config(&folder, &[], arguments);
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{name}");
            assert_golden(&format!("serve/print_config_{name}{format}"), &said.out);
        }
    }
}

#[test]
fn what_is_printed_can_be_used_as_a_file() {
    let server = "[server]\nhttp = \"127.0.0.1:1\"\ntrusted_proxies = [\"10.0.0.0/8\"]\n\
        attributes = { user = \"x-user\", \"a b\" = \"x-ab\" }\nlog = { format = \"json\", keys = true }\n";
    let folder = Folder::with(&[("t.toml", &format!("{server}{RULE}"))]);
    let first = print_config(&folder, &[("TOLLGATE_MAX_KEYS", "77")], &["--config", "t.toml"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_golden("serve/print_config_file_and_variable", &first.out);
    folder.write("again.toml", &first.out);
    let values = |said: &Said| -> BTreeMap<String, Value> {
        settings(said).into_iter().map(|(name, (value, _))| (name, value)).collect()
    };
    let before = ["--config", "t.toml", "--max-keys", "77", "--json"];
    let before = values(&print_config(&folder, &[], &before));
    let after = values(&print_config(&folder, &[], &["--config", "again.toml", "--json"]));
    assert_eq!(before, after);
    assert_eq!(after["policy"], "t.toml");
    assert_eq!(after["log.keys"], true);
}

#[test]
fn interval_of_snapshots_without_a_snapshot_gets_a_warning() {
    let folder = Folder::new();
    let alone = print_config(&folder, &[], &["--snapshot-interval", "5s"]);
    let warning = "warning: --snapshot-interval does nothing without a snapshot (--snapshot FILE)";
    assert!(alone.err.contains(warning), "{}", alone.err);
    let both = ["--snapshot", "state", "--snapshot-interval", "5s"];
    assert_eq!(print_config(&folder, &[], &both).err, "");
}

#[test]
fn a_secret_that_is_printed_is_no_value_of_the_file() {
    let server = "[server]\nresp_password = \"s3cret\"\nstore = \"redis://:s3cret@host:6379/0\"\n\
        admin_token_read = \"s3cret-s3cret-s3cret\"\n";
    let folder = Folder::with(&[("t.toml", server)]);
    let variables = [("TOLLGATE_ADMIN_TOKEN_WRITE", "s3cret-s3cret-s3cret-w")];
    let first = print_config(&folder, &variables, &["--config", "t.toml"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert!(!first.out.contains("s3cret"), "{}", first.out);
    assert_golden("serve/print_config_secrets", &first.out);
    folder.write("again.toml", &first.out);
    let again = print_config(&folder, &[], &["--config", "again.toml", "--json"]);
    let again = settings(&again);
    for name in ["resp_password", "admin_token_read", "admin_token_write"] {
        assert_eq!(again[name].0, Value::Null, "{name}");
    }
    assert_eq!(again["store"], ("memory".into(), "default".into()));
    let json = print_config(&folder, &variables, &["--config", "t.toml", "--json"]).json();
    let hidden = json["settings"].as_array().unwrap().iter().filter(|of| of["hidden"] == true);
    assert_eq!(hidden.count(), 4, "{json}");
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let file = "[server]\nhtpp = \"off\"\nhttp = 8080\nheaders = \"drat-11\"\n\
        trusted_proxies = [\"10.0.0.0/8\",\n  \"everyone\", 7]\nattributes = { user = \"x y\" }\n\
        max_keys = 0\nlog = \"json\"\ntls.crt = \"c.pem\"\n[[rule]]\nnaem = \"own\"\n";
    let folder = Folder::with(&[("t.toml", file)]);
    let variables = [("TOLLGATE_TELL", "everything"), ("TOLLGATE_LOG_LEVEL", "loud")];
    let arguments = ["--config", "t.toml", "--http", "80", "--attribute", "user"];
    let said = print_config(&folder, &variables, &arguments);
    assert_eq!(said.code, Some(2));
    assert_eq!(said.err.lines().count(), 15, "{}", said.err);
    assert_transcript("serve/wrong_settings", [said]);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let folder = Folder::with(&[("broken.toml", "[server\n"), ("t.toml", "server = 5\n")]);
    let said = ["none.toml", ".", "/dev/zero", "broken.toml", "t.toml"].map(|file| {
        let said = print_config(&folder, &[], &["--config", file]);
        assert_eq!(said.code, Some(2), "{file}");
        said
    });
    assert_transcript("serve/wrong_files", said);
}

#[test]
fn a_secret_is_never_shown() {
    let url = "redis://gate:s3cret@127.0.0.1:1/0";
    let folder = Folder::with(&[("t.toml", &format!("[server]\nstore = \"{url}\"\n"))]);
    let said = [
        vec!["--config", "t.toml"],
        vec!["--store", url],
        vec!["--store", url, "--json"],
        vec!["--store", "redis//gate:s3cret@h"],
        vec!["--store", "s3cret"],
        vec!["--resp-password", "s3cret"],
        vec!["--resp-password", "s3cret", "--json"],
    ]
    .map(|arguments| {
        let said = print_config(&folder, &[], &arguments);
        assert!(!said.out.contains("s3cret") && !said.err.contains("s3cret"), "{arguments:?}");
        let hidden = [&said.out, &said.err].map(|text| text.matches("***").count());
        (arguments, said.code, hidden)
    });
    // The stars in what is printed and in errors.
    let expected = [
        (Some(0), [1, 0]),
        (Some(0), [1, 0]),
        (Some(0), [1, 0]),
        (Some(2), [0, 1]),
        (Some(2), [0, 1]),
        (Some(0), [1, 0]),
        (Some(0), [1, 0]),
    ];
    for ((arguments, code, hidden), expected) in said.into_iter().zip(expected) {
        assert_eq!((code, hidden), expected, "{arguments:?}");
    }
}

#[test]
fn paths_in_a_file_are_seen_from_its_folder() {
    let folder = Folder::with(&[]);
    std::fs::create_dir(folder.path().join("etc")).unwrap();
    folder.write("etc/t.toml", "[server]\npolicy = \"own.toml\"\n");
    folder.write("etc/own.toml", RULE);
    let said = print_config(&folder, &[], &["--config", "etc/t.toml", "--json"]);
    assert_eq!(settings(&said)["policy"].0, "etc/own.toml");
}

#[test]
fn rules_in_the_file_are_the_policy_unless_another_is_named() {
    let folder = Folder::with(&[
        ("inline.toml", RULE),
        ("other.toml", RULE),
        ("both.toml", &format!("[server]\npolicy = \"other.toml\"\n{RULE}")),
    ]);
    let policy = |arguments: &[&str]| {
        let said = print_config(&folder, &[], &[arguments, &["--json"]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        (settings(&said)["policy"].0.clone(), said.err)
    };
    let inline = policy(&["--config", "inline.toml"]);
    assert_eq!(inline, ("inline.toml".into(), String::new()));
    let flags = ["--config", "inline.toml", "--policy", "other.toml"];
    let (named, warning) = policy(&flags);
    assert_eq!(named, "other.toml");
    assert_golden("serve/warning_rules_not_in_force", &warning);
    let both = print_config(&folder, &[], &["--config", "both.toml"]);
    assert_transcript("serve/policy_and_rules", [both]);
}

#[test]
fn validate_checks_the_settings_with_the_policy() {
    let folder = Folder::with(&[
        ("good.toml", &format!("[server]\nhttp = \"off\"\n{RULE}")),
        ("bad.toml", &format!("{RULE}[server]\nhttp = \"8080\"\nheadrs = \"off\"\n")),
    ]);
    let said = folder.tollgate(&["validate", "--strict", "good.toml"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = folder.tollgate(&["validate", "bad.toml"]);
    assert_eq!(said.code, Some(2));
    assert_transcript("validate/settings", [said]);
}

#[test]
fn validate_follows_the_policy_that_the_settings_name() {
    let folder = Folder::with(&[
        ("good.toml", "[server]\npolicy = \"etc/own.toml\"\n"),
        ("bad.toml", "[server]\npolicy = \"etc/bad.toml\"\n"),
        ("gone.toml", "[server]\npolicy = \"etc/gone.toml\"\n"),
        ("envoy.toml", "[server]\nenvoy_config = \"etc\"\n"),
    ]);
    std::fs::create_dir(folder.path().join("etc")).unwrap();
    folder.write("etc/own.toml", RULE);
    folder.write("etc/bad.toml", RULE.replace("limit", "limt"));
    folder.write("etc/edge.yaml", "domain: edge\ndescriptors: 5\n");
    let said = folder.tollgate(&["validate", "good.toml"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "good.toml: ok, 1 rule\n"),
        "{}",
        said.err
    );
    let said = ["bad.toml", "gone.toml", "envoy.toml"].map(|file| {
        let said = folder.tollgate(&["validate", file]);
        assert_eq!(said.code, Some(2), "{file}: {}", said.out);
        said
    });
    assert_transcript("validate/policy_that_settings_name", said);
}

#[test]
fn what_serve_would_refuse_is_refused_by_all_with_file_and_line() {
    let large = RULE.replace("5/h", "18446744073709551615/h");
    let folder = Folder::with(&[
        (
            "t.toml",
            "[server]\nstore = \"redis://:s3cret@x:bad\"\nadmin_token_write = \"hunter2\"\n",
        ),
        (
            "twice.toml",
            "[server]\nadmin_token_read = \"0123456789abcdef\"\nadmin_token_write = \"0123456789abcdef\"\n",
        ),
        ("large.toml", &format!("[server]\nstore = \"redis://127.0.0.1:1/0\"\n{large}")),
    ]);
    let config = ["--config", "t.toml"];
    let asked = [
        folder.tollgate(&["validate", "t.toml"]),
        print_config(&folder, &[], &config),
        folder.tollgate(&[&["serve"][..], &config].concat()),
    ];
    for said in &asked {
        assert_eq!(said.code, Some(2), "{}", said.out);
        assert!(!said.err.contains("s3cret") && !said.err.contains("hunter2"), "{}", said.err);
    }
    let twice = folder.tollgate(&["validate", "twice.toml"]);
    let serves = folder.tollgate(&["serve", "--config", "large.toml"]);
    let validates = folder.tollgate(&["validate", "large.toml"]);
    assert_eq!((serves.code, validates.code), (Some(2), Some(2)), "{}", validates.out);
    assert_eq!(serves.err, validates.err);
    let said = asked.into_iter().chain([twice, serves, validates]);
    assert_transcript("serve/refused_by_all", said);
}

#[test]
fn settings_that_undo_each_other_are_warned_of() {
    let folder = Folder::with(&[("tokens", "")]);
    let warnings = [
        &["--http", "off", "--admin-tokens", "tokens"][..],
        &["--admin", "off", "--insecure-admin"],
        &["--attribute", "ip=x-foo"],
    ]
    .map(|arguments| {
        let said = print_config(&folder, &[], arguments);
        assert_eq!(said.code, Some(0), "{}", said.err);
        format!("{}\n{}", said.line, said.err)
    });
    assert_golden("serve/warnings", &warnings.concat());
    let right = ["--http", "off", "--admin", "127.0.0.1:0", "--admin-tokens", "tokens"];
    assert_eq!(print_config(&folder, &[], &right).err, "");
    assert_eq!(print_config(&folder, &[], &["--attribute", "user=x-user"]).err, "");
}

#[test]
fn a_variable_that_nobody_reads_is_told_only_where_it_looks_misspelt() {
    let strange = [
        ("TOLLGATE_HTPP", "off"),
        ("TOLLGATE_PORT", "tcp://10.0.0.1:8080"),
        ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOLLGATE_WHATEVER_ELSE", "1"),
    ];
    let said = print_config(&Folder::new(), &strange, &[]);
    assert_eq!(said.code, Some(0));
    assert_eq!(said.err, "warning: TOLLGATE_HTPP is no setting, did you mean TOLLGATE_HTTP?\n");
}

#[test]
fn the_common_variable_for_levels_is_heard_where_it_can_be() {
    for (value, level, from) in
        [("debug", "debug", "RUST_LOG"), ("other[span]=x", "info", "default")]
    {
        let said = print_config(&Folder::new(), &[("RUST_LOG", value)], &["--json"]);
        assert_eq!(settings(&said)["log.level"], (level.into(), from.into()));
    }
    let both = [("RUST_LOG", "debug"), ("TOLLGATE_LOG_LEVEL", "warn")];
    let said = print_config(&Folder::new(), &both, &["--json"]);
    assert_eq!(settings(&said)["log.level"].0, "warn");
}

/// Starts the server with an address that no machine has, so that it ends after its policy is read.
fn serve_briefly(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let address = ["serve", "--http", "192.0.2.1:0", "--grpc", "off", "--resp", "off"];
    folder.tollgate_with(variables, &[&address[..], arguments].concat())
}

#[test]
fn variables_of_envoyproxy_ratelimit_stop_a_server_without_a_policy() {
    let yaml =
        "domain: edge\ndescriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 5}}]\n";
    let folder = Folder::with(&[("etc/edge.yaml", yaml), ("own.toml", "")]);
    for (variables, directory) in [
        (
            &[("RUNTIME_ROOT", "/data"), ("RUNTIME_SUBDIRECTORY", "ratelimit")][..],
            "/data/ratelimit/config",
        ),
        (&[("RUNTIME_ROOT", "/data")], "/data/config"),
        (&[("RUNTIME_SUBDIRECTORY", "limits")], "/srv/runtime_data/current/limits/config"),
        (&[("SHADOW_MODE", "true")], "DIR"),
        (&[("RUNTIME_ROOT", "/data"), ("RUNTIME_APPDIRECTORY", "own")], "/data/own"),
    ] {
        let said = serve_briefly(&folder, variables, &[]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(variables[0].0), "{}", said.err);
        assert!(said.err.contains(&format!("--envoy-config {directory}")), "{}", said.err);
        for given in [["--envoy-config", "etc"], ["--policy", "own.toml"]] {
            let said = serve_briefly(&folder, variables, &given);
            assert_eq!(said.code, Some(1), "it gets as far as its address: {}", said.err);
        }
        let said = folder.tollgate_with(variables, &["serve", "--print-config"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let said = serve_briefly(&folder, &[("SHADOW_MODE", "")], &[]);
    assert_eq!(said.code, Some(1), "an empty variable is not set: {}", said.err);
}

#[test]
fn redis_url_alone_is_warned_of_while_state_is_in_memory() {
    let folder = Folder::with(&[("own.toml", "")]);
    let variable = [("REDIS_URL", "redis://:secret@10.0.0.1:6379")];
    let said = serve_briefly(&folder, &variable, &[]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("REDIS_URL is set and not used"), "{}", said.err);
    assert!(said.err.contains("--store"), "{}", said.err);
    assert!(!said.err.contains("secret"), "{}", said.err);
    for given in [["--store", "redis://127.0.0.1:1"], ["--policy", "own.toml"]] {
        let said = serve_briefly(&folder, &variable, &given);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(!said.err.contains("REDIS_URL"), "{}", said.err);
    }
}

#[test]
fn files_on_the_page_are_right() {
    let page = include_str!("../../../../docs/server.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut read = 0;
    for block in blocks {
        let folder = Folder::with(&[("t.toml", block)]);
        let said = folder.tollgate(&["validate", "--strict", "t.toml"]);
        assert_eq!(said.code, Some(0), "{block}\n{}{}", said.out, said.err);
        read += 1;
    }
    assert!(read > 0);
}
