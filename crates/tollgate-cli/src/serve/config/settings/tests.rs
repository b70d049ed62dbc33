use super::*;

/// The table of docs/server.md.
fn table() -> String {
    let row = |setting: &Setting| {
        let default = match setting.default {
            Some(default) => format!("`{default}`"),
            None => setting.otherwise.to_owned(),
        };
        let words = match setting.shape {
            Shape::Word(words) => format!(": `{}`", words.join("`, `")),
            _ => String::new(),
        };
        let Setting { name, flag, value, about, .. } = setting;
        let variable = setting.variable();
        format!("| `{name}` | `--{flag} {value}` | `{variable}` | {about}{words} | {default} |\n")
    };
    let head = "| in `[server]` | flag | variable | means | default |\n|---|---|---|---|---|\n";
    SETTINGS.iter().fold(head.to_owned(), |table, setting| table + &row(setting))
}

#[test]
fn the_page_lists_every_setting() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (before, rest) = text.split_once("<!-- settings -->\n\n").unwrap();
    let (listed, after) = rest.split_once("\n\n").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let text = format!("{before}<!-- settings -->\n\n{}\n{after}", table());
        std::fs::write(page, text).unwrap();
    } else {
        assert_eq!(format!("{listed}\n"), table(), "run the tests with UPDATE_DOCS=1");
    }
}

#[test]
fn no_two_settings_share_a_name() {
    for (number, setting) in SETTINGS.iter().enumerate() {
        for other in &SETTINGS[..number] {
            assert_ne!(setting.name, other.name);
            assert_ne!(setting.flag, other.flag);
            assert_ne!(setting.variable(), other.variable());
        }
    }
}
