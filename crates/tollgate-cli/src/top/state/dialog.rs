//! Questions to whoever sits there, before anything is changed.

use tollgate::Limit;

use super::{Change, Target};
use crate::duration;

/// No limit and no duration is longer; a search neither.
const MAX_TYPED: usize = 512;

/// What a dialog is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) enum Kind {
    Search,
    Reset(Target),
    Block(Target),
    Lift(Target),
    Override(Target),
    RemoveOverride(Target),
}

/// A line that is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) struct Field {
    pub(in crate::top) label: &'static str,
    pub(in crate::top) hint: &'static str,
    pub(in crate::top) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::top) struct Dialog {
    pub(in crate::top) kind: Kind,
    pub(in crate::top) fields: Vec<Field>,
    /// A warning if a change affects more than the client that is shown.
    pub(in crate::top) warning: Option<String>,
    /// Which field is typed in.
    pub(in crate::top) at: usize,
    /// It is being done.
    pub(in crate::top) busy: bool,
    pub(in crate::top) error: Option<String>,
}

impl Dialog {
    pub(super) fn of(kind: Kind) -> Dialog {
        let field = |label, text: &str, hint| Field { label, hint, text: text.to_owned() };
        let fields = match &kind {
            Kind::Search => vec![field("search", "", "part of a key, or user=42 route=/search")],
            Kind::Block(_) => vec![field("for", "15m", "30s, 15m, 1h30m, 7d")],
            Kind::Override(_) => vec![
                field("limit", "", "500/min burst 50, 10/s and 1000/h, or unlimited"),
                field("tier", "", "a tier of the policy; empty: unchanged"),
                field("for", "1h", "15m, 8h, 7d; empty: no expiry"),
            ],
            Kind::Reset(_) | Kind::Lift(_) | Kind::RemoveOverride(_) => Vec::new(),
        };
        Dialog { kind, fields, warning: None, at: 0, busy: false, error: None }
    }

    /// Begins with these numbers.
    pub(super) fn with_limit(mut self, numbers: &[String]) -> Dialog {
        if let Some(field) = self.fields.iter_mut().find(|field| field.label == "limit") {
            field.text = numbers.join(" and ");
        }
        self
    }

    pub(super) fn typed(&mut self, c: char) {
        if let Some(field) = self.fields.get_mut(self.at)
            && !c.is_control()
            && field.text.len() < MAX_TYPED
        {
            field.text.push(c);
            self.error = None;
        }
    }

    pub(super) fn rub_out(&mut self) {
        if let Some(field) = self.fields.get_mut(self.at) {
            field.text.pop();
        }
    }

    pub(super) fn rub_out_all(&mut self) {
        if let Some(field) = self.fields.get_mut(self.at) {
            field.text.clear();
        }
    }

    pub(super) fn next_field(&mut self) {
        self.at = (self.at + 1) % self.fields.len().max(1);
    }

    pub(super) fn previous_field(&mut self) {
        self.at = (self.at + self.fields.len().max(1) - 1) % self.fields.len().max(1);
    }

    fn text(&self, label: &str) -> &str {
        let field = self.fields.iter().find(|field| field.label == label);
        field.map(|field| field.text.trim()).unwrap_or_default()
    }

    /// The change that is asked for, or what is wrong with what was typed; none for a search.
    pub(super) fn change(&self) -> Result<Option<Change>, String> {
        Ok(Some(match &self.kind {
            Kind::Search => return Ok(None),
            Kind::Reset(target) => Change::Reset(target.clone()),
            Kind::Lift(target) => Change::Lift(target.clone()),
            Kind::RemoveOverride(target) => Change::RemoveOverride(target.clone()),
            Kind::Block(target) => match seconds(self.text("for"))? {
                Some(seconds) => Change::Block(target.clone(), seconds),
                None => return Err("say for how long, such as 15m".to_owned()),
            },
            Kind::Override(target) => {
                let (limits, tier) = (limits(self.text("limit"))?, self.text("tier"));
                if limits.is_empty() && tier.is_empty() {
                    return Err("say a limit, such as 500/min, or a tier".to_owned());
                }
                let tier = Some(tier.to_owned()).filter(|tier| !tier.is_empty());
                Change::Override(target.clone(), limits, tier, seconds(self.text("for"))?)
            }
        }))
    }
}

/// A length of time, in whole seconds: rounded up, so that it is never none.
fn seconds(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let length = duration::parse(text)?;
    let seconds = u64::try_from(length.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u64::MAX);
    if seconds == 0 { Err("it must last at least 1s".to_owned()) } else { Ok(Some(seconds)) }
}

/// `10/s and 1000/h`, checked before it is sent.
fn limits(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() || text == "unlimited" {
        return Ok(if text.is_empty() { Vec::new() } else { vec![text.to_owned()] });
    }
    let one = |text: &str| match text.trim().parse::<Limit>() {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    text.split(" and ").map(one).collect()
}
