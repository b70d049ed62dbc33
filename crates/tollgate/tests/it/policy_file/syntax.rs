//! Text that is not TOML, and trees that are too deep.

use std::thread;

use tollgate::Policy;

use super::refuses;

#[test]
fn text_that_is_not_toml_is_refused_with_every_place_the_parser_names() {
    refuses(
        r#"[[rule]]
name = "r"
key = ["user"]
limit = "1/s"
limit = "2/s"
foo = 1
"#,
        &[
            r#"t.toml:5: rule "r": `limit` is there twice, keep one of them"#,
            r#"t.toml:6: rule "r": unknown key `foo`, use name, public_name, match, key, defaults, limit, limits, tiers, cost, shadow, block_for, on_store_error, sync, lease_ttl, lease_share"#,
        ],
    );
    refuses("x", &["t.toml:1: not TOML: key with no value, expected `=`"]);
    refuses(
        "a = 
 b = 1
[c
",
        &[
            "t.toml:1: not TOML: string values must be quoted, expected literal string",
            "t.toml:3: not TOML: unclosed table, expected `]`",
        ],
    );
    refuses("a = 'x", &["t.toml:1: not TOML: invalid literal string, expected `'`"]);
    refuses(
        "[[rule]
name = 1",
        &["t.toml:1: not TOML: unclosed array table, expected `]`"],
    );
    refuses(
        "a = 1
a = 2
",
        &[
            "t.toml:1: unknown key `a`, use rule, allow, deny, override, tiers, tier_from, default_tier, on_store_error, sync, lease_ttl, lease_share, partition, server",
            "t.toml:2: `a` is there twice, keep one of them",
        ],
    );
    refuses(
        "[a]
[a]",
        &["t.toml:2: `a` is there twice, keep one of them"],
    );
    refuses(
        r#"[[rule]]
name = "a"
limit = "1/s"
[rule]
"#,
        &["t.toml:4: `rule` is there twice, keep one of them"],
    );
}

/// Reads it on a small stack, as a server's thread may have.
fn read(text: String) -> String {
    let thread = thread::Builder::new().stack_size(1 << 20);
    let read = move || {
        let read = Policy::from_toml("t.toml", &text).map(drop);
        read.expect_err("it is no policy").to_string()
    };
    thread.spawn(read).expect("a thread").join().expect("no panic")
}

#[test]
fn nesting_is_refused_before_it_overflows_the_stack() {
    let deep = 200_000;
    let message = "t.toml:1: a key of more than 16 parts, no setting is that deep";
    assert_eq!(read(format!("{}a = 1", "a.".repeat(deep))), message);
    assert_eq!(read(format!("[{}a]", "a . ".repeat(deep))), message);
    assert_eq!(read(format!("[[{}'a']]", "\"a\".".repeat(deep))), message);
    let message = "t.toml:1: not TOML: cannot recurse further; max recursion depth met";
    for text in [
        format!("a = {}", "[".repeat(deep)),
        format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("a = {}", "{ a = ".repeat(deep)),
    ] {
        assert_eq!(read(text).lines().next(), Some(message));
    }
}

#[test]
fn the_deepest_tree_that_is_read_fits_on_a_small_stack() {
    let key = ["a"; 16].join(".");
    let open = format!("{{ {key} = ").repeat(79);
    let text = format!("[{key}]\n{key} = {open}1{}", " }".repeat(79));
    assert!(read(text).starts_with("t.toml:1: unknown key `a`, use rule"));
}
