//! The answer for people.

use std::io::{self, Write};

use super::{Change, Consumption, Detail, Kind};
use crate::paint::{Paint, Tone, printable};

pub(super) fn changes(out: &mut impl Write, paint: Paint, changes: &[Change]) -> io::Result<()> {
    if changes.is_empty() {
        return writeln!(out, "no difference");
    }
    for change in changes {
        let (mark, tone) = match change.kind {
            Kind::Added => ("+", Tone::Good),
            Kind::Removed => ("-", Tone::Bad),
            Kind::Changed => ("~", Tone::Heading),
        };
        let headline = printable(&format!("{mark} {}", title(change)));
        writeln!(out, "{}", paint.text(tone, &headline))?;
        for of in &change.details {
            writeln!(out, "    {}", printable(&detail(of, change.kind)))?;
        }
        if let Some(consumption) = &change.consumption {
            let line = printable(&format!("consumption: {}", fate(consumption)));
            writeln!(out, "    {}", paint.text(Tone::Quiet, &line))?;
        }
    }
    writeln!(out, "{}", summary(changes))
}

fn title(change: &Change) -> String {
    match change.what {
        "policy" => change.name.clone(),
        "override" => format!("override of {}", change.name),
        "allow" | "deny" => format!("{} list {:?}", change.what, change.name),
        what => format!("{what} {:?}", change.name),
    }
}

fn detail(detail: &Detail, kind: Kind) -> String {
    let whose = detail.whose.as_ref().map(|whose| format!(" for {whose}")).unwrap_or_default();
    let values = match (&detail.old, &detail.new) {
        (Some(old), Some(new)) => format!("{old} → {new}"),
        (Some(old), None) if kind == Kind::Changed => format!("{old} → none"),
        (None, Some(new)) if kind == Kind::Changed => format!("none → {new}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => String::new(),
    };
    format!("{}{whose}: {values}", detail.setting)
}

fn fate(consumption: &Consumption) -> String {
    match consumption {
        Consumption::Kept => "kept".to_owned(),
        Consumption::KeptInProportion => {
            "kept in proportion, who had used a third still has".to_owned()
        }
        Consumption::StartsAnewOtherKey => "starts anew, the key is another".to_owned(),
        Consumption::StartsAnewRenamedFrom(old) => {
            format!("starts anew, {old:?} has another name now")
        }
        Consumption::StartsAtNothing => "starts at nothing, the rule is new".to_owned(),
        Consumption::Forgotten => "forgotten, there is no such rule any more".to_owned(),
    }
}

fn summary(changes: &[Change]) -> String {
    let count = |kind| changes.iter().filter(|change| change.kind == kind).count();
    let (added, removed, changed) =
        (count(Kind::Added), count(Kind::Removed), count(Kind::Changed));
    format!("{added} added, {removed} removed, {changed} changed")
}
