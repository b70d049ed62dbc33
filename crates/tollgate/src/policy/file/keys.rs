//! Every key of the file, once: what the reader knows, what the schema says, what the docs list.

/// A key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(super) kind: Kind,
    /// What it means, for editors.
    pub(super) about: &'static str,
}

/// What a key's value looks like.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Attributes, some as a table that says which part of an address counts.
    Parts,
    /// The first bits of an address, at most so many.
    Bits(u8),
    /// The value of an attribute: text, or what is taken as its text.
    Value,
    Values,
    OneOrMany,
    Whole,
    Flag,
    Duration,
    Percent,
    Moment,
    /// Attributes and their values.
    Attributes,
    Word(&'static [&'static str]),
    Match,
    /// A match of at least one attribute.
    SomeMatch,
    Condition,
    Conditions,
    Limit,
    Limits,
    /// Names, and the limits of each.
    Numbers,
    Tiers,
    Cost,
    Block,
    Rules,
    Lists,
    Overrides,
    /// Not of a policy: the server's reader knows what is in it.
    Server,
}

const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { name, kind, about }
}

pub(super) const SYNC: &[&str] = &["strict", "leased"];
pub(super) const STORE_ERROR: &[&str] = &["local", "allow", "deny"];
const ALGORITHMS: &[&str] =
    &["token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_counter"];

/// The file itself.
pub(crate) const POLICY: &[Key] = &[
    key("rule", Kind::Rules, "Which requests a limit applies to, and what counts together."),
    key("allow", Kind::Lists, "Who passes whatever the limits say; beats deny."),
    key("deny", Kind::Lists, "Who never passes; beats the limits."),
    key("override", Kind::Overrides, "A client with a tier or limits of its own."),
    key("tiers", Kind::Tiers, "Limits that replace those of the named rules, by tier."),
    key("tier_from", Kind::Text, "The attribute that says a request's tier; \"tier\" if not said."),
    key("default_tier", Kind::Text, "The tier of requests that say none."),
    key("on_store_error", Kind::Word(STORE_ERROR), "What rules do when the store is away."),
    key("sync", Kind::Word(SYNC), "Whether rules ask the store each time or borrow from it."),
    key("lease_ttl", Kind::Duration, "How long borrowed units may be spent; 1s if not said."),
    key("lease_share", Kind::Percent, "The largest part of a limit that is borrowed at once."),
    key("partition", Kind::Text, "The attribute that says where in a Redis Cluster a key lies."),
    key("server", Kind::Server, "Settings of tollgate serve, no part of the policy."),
];

/// `[[rule]]`
pub(crate) const RULE: &[Key] = &[
    key("name", Kind::Text, "What decisions call the rule; state is kept under it."),
    key("public_name", Kind::Text, "The name that clients see instead; \"\" hides the name."),
    key("match", Kind::Match, "Attributes and what must hold for each; all must."),
    key("key", Kind::Parts, "Attributes whose values are counted together; [] is everybody."),
    key("defaults", Kind::Attributes, "What a request without this attribute of key counts as."),
    key("limit", Kind::Limit, "How much is allowed."),
    key("limits", Kind::Limits, "Several limits, all of which must hold."),
    key("tiers", Kind::Numbers, "Limits instead of those, by tier."),
    key("cost", Kind::Cost, "How many units a request takes: a number, or from an attribute."),
    key("shadow", Kind::Flag, "Counts and reports, and never denies."),
    key("block_for", Kind::Block, "For how long a key stays denied once it was."),
    key("on_store_error", Kind::Word(STORE_ERROR), "What to do when the store is away."),
    key("sync", Kind::Word(SYNC), "Whether it asks the store each time or borrows from it."),
    key("lease_ttl", Kind::Duration, "How long borrowed units may be spent."),
    key("lease_share", Kind::Percent, "The largest part of the limit that is borrowed at once."),
];

/// `[[allow]]` and `[[deny]]`
pub(crate) const LIST: &[Key] = &[
    key("name", Kind::Text, "What decisions call the list; allow-1, deny-2 and so on if not said."),
    key("public_name", Kind::Text, "The name that clients see instead; \"\" hides the name."),
    key(
        "match",
        Kind::SomeMatch,
        "Attributes and what must hold for each; all must, at least one.",
    ),
];

/// `[[override]]`
pub(crate) const OVERRIDE: &[Key] = &[
    key("client", Kind::Attributes, "The attributes a request must have, with these values."),
    key("tier", Kind::Text, "The client's tier, whatever the request says."),
    key("limits", Kind::Numbers, "The client's limits under the named rules, whatever its tier."),
    key("until", Kind::Moment, "When it ends."),
];

/// A condition as a table.
pub(crate) const CONDITION: &[Key] = &[
    key("is", Kind::Value, "It has this value."),
    key("one_of", Kind::Values, "It has one of these values."),
    key("prefix", Kind::OneOrMany, "It begins with this, or with one of these."),
    key("glob", Kind::OneOrMany, "It looks like this; * is any text, ? one character."),
    key("cidr", Kind::OneOrMany, "It is an IP address in this network, or in one of these."),
    key("present", Kind::Flag, "It is there, whatever its value; false: it is not."),
    key("absent", Kind::Flag, "It is not there; false: it is."),
    key("not", Kind::Condition, "This one condition does not hold, be it that it is not there."),
    key("all", Kind::Conditions, "Several conditions, all of which must hold."),
];

/// A limit as a table.
pub(crate) const LIMIT: &[Key] = &[
    key("algorithm", Kind::Word(ALGORITHMS), "How it counts; token_bucket if not said."),
    key("mode", Kind::Word(&["meter", "queue"]), "Whether a leaky bucket denies or delays."),
    key("count", Kind::Whole, "Units per period."),
    key("per", Kind::Text, "The period: a unit or a duration."),
    key("burst", Kind::Whole, "How much a bucket holds; the count if not said."),
    key("align", Kind::Word(&["epoch", "first", "calendar"]), "Where fixed windows begin."),
    key("zone", Kind::Text, "The IANA time zone of a calendar window; UTC if not said."),
];

/// The part of an address in `key`.
pub(crate) const ADDRESS: &[Key] = &[
    key(
        "v4",
        Kind::Bits(32),
        "The first bits of an IPv4 address that are counted; 32 if not said.",
    ),
    key(
        "v6",
        Kind::Bits(128),
        "The first bits of an IPv6 address that are counted; 64 if not said.",
    ),
];

/// `cost` as a table.
pub(crate) const COST: &[Key] = &[
    key("attribute", Kind::Text, "The attribute that says how many units."),
    key("multiplier", Kind::Whole, "What it is multiplied by; 1 if not said."),
    key("default", Kind::Whole, "Its value where a request lacks it; 1 if not said."),
];

/// `block_for` as a table.
pub(crate) const BLOCK: &[Key] = &[
    key("first", Kind::Duration, "How long the first time."),
    key("factor", Kind::Whole, "By how much each further time is longer; 1 if not said."),
    key("max", Kind::Duration, "The longest; needed with a factor."),
];

/// Every table and its keys.
pub(crate) const TABLES: &[(&str, &[Key])] = &[
    ("policy", POLICY),
    ("rule", RULE),
    ("list", LIST),
    ("override", OVERRIDE),
    ("condition", CONDITION),
    ("limit", LIMIT),
    ("address", ADDRESS),
    ("cost", COST),
    ("block_for", BLOCK),
];
