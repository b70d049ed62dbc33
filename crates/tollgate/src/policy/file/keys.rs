//! Every key of the file, once: what the reader knows, what the schema says, what the docs list.

/// A key of a table.
pub(crate) struct SettingSpec {
    pub(crate) name: &'static str,
    pub(super) kind: ValueKind,
    /// What it means, for editors.
    pub(super) about: &'static str,
}

/// What a key's value looks like.
#[derive(Clone, Copy)]
pub(super) enum ValueKind {
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

const fn key(name: &'static str, kind: ValueKind, about: &'static str) -> SettingSpec {
    SettingSpec { name, kind, about }
}

pub(super) const SYNC: &[&str] = &["strict", "leased"];
pub(super) const STORE_ERROR: &[&str] = &["local", "allow", "deny"];
const ALGORITHMS: &[&str] =
    &["token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_counter"];

/// The file itself.
pub(crate) const POLICY: &[SettingSpec] = &[
    key("rule", ValueKind::Rules, "Which requests a limit applies to, and what counts together."),
    key("allow", ValueKind::Lists, "Who passes whatever the limits say; beats deny."),
    key("deny", ValueKind::Lists, "Who never passes; beats the limits."),
    key("override", ValueKind::Overrides, "A client with a tier or limits of its own."),
    key("tiers", ValueKind::Tiers, "Limits that replace those of the named rules, by tier."),
    key(
        "tier_from",
        ValueKind::Text,
        "The attribute that says a request's tier; \"tier\" if not said.",
    ),
    key("default_tier", ValueKind::Text, "The tier of requests that say none."),
    key("on_store_error", ValueKind::Word(STORE_ERROR), "What rules do when the store is away."),
    key("sync", ValueKind::Word(SYNC), "Whether rules ask the store each time or borrow from it."),
    key("lease_ttl", ValueKind::Duration, "How long borrowed units may be spent; 1s if not said."),
    key("lease_share", ValueKind::Percent, "The largest part of a limit that is borrowed at once."),
    key(
        "partition",
        ValueKind::Text,
        "The attribute that says where in a Redis Cluster a key lies.",
    ),
    key("server", ValueKind::Server, "Settings of tollgate serve, no part of the policy."),
];

/// `[[rule]]`
pub(crate) const RULE: &[SettingSpec] = &[
    key("name", ValueKind::Text, "What decisions call the rule; state is kept under it."),
    key("public_name", ValueKind::Text, "The name that clients see instead; \"\" hides the name."),
    key("match", ValueKind::Match, "Attributes and what must hold for each; all must."),
    key("key", ValueKind::Parts, "Attributes whose values are counted together; [] is everybody."),
    key(
        "defaults",
        ValueKind::Attributes,
        "What a request without this attribute of key counts as.",
    ),
    key("limit", ValueKind::Limit, "How much is allowed."),
    key("limits", ValueKind::Limits, "Several limits, all of which must hold."),
    key("tiers", ValueKind::Numbers, "Limits instead of those, by tier."),
    key("cost", ValueKind::Cost, "How many units a request takes: a number, or from an attribute."),
    key("shadow", ValueKind::Flag, "Counts and reports, and never denies."),
    key("block_for", ValueKind::Block, "For how long a key stays denied once it was."),
    key("on_store_error", ValueKind::Word(STORE_ERROR), "What to do when the store is away."),
    key("sync", ValueKind::Word(SYNC), "Whether it asks the store each time or borrows from it."),
    key("lease_ttl", ValueKind::Duration, "How long borrowed units may be spent."),
    key(
        "lease_share",
        ValueKind::Percent,
        "The largest part of the limit that is borrowed at once.",
    ),
];

/// `[[allow]]` and `[[deny]]`
pub(crate) const LIST: &[SettingSpec] = &[
    key(
        "name",
        ValueKind::Text,
        "What decisions call the list; allow-1, deny-2 and so on if not said.",
    ),
    key("public_name", ValueKind::Text, "The name that clients see instead; \"\" hides the name."),
    key(
        "match",
        ValueKind::SomeMatch,
        "Attributes and what must hold for each; all must, at least one.",
    ),
];

/// `[[override]]`
pub(crate) const OVERRIDE: &[SettingSpec] = &[
    key("client", ValueKind::Attributes, "The attributes a request must have, with these values."),
    key("tier", ValueKind::Text, "The client's tier, whatever the request says."),
    key(
        "limits",
        ValueKind::Numbers,
        "The client's limits under the named rules, whatever its tier.",
    ),
    key("until", ValueKind::Moment, "When it ends."),
];

/// A condition as a table.
pub(crate) const CONDITION: &[SettingSpec] = &[
    key("is", ValueKind::Value, "It has this value."),
    key("one_of", ValueKind::Values, "It has one of these values."),
    key("prefix", ValueKind::OneOrMany, "It begins with this, or with one of these."),
    key("glob", ValueKind::OneOrMany, "It looks like this; * is any text, ? one character."),
    key("cidr", ValueKind::OneOrMany, "It is an IP address in this network, or in one of these."),
    key("present", ValueKind::Flag, "It is there, whatever its value; false: it is not."),
    key("absent", ValueKind::Flag, "It is not there; false: it is."),
    key(
        "not",
        ValueKind::Condition,
        "This one condition does not hold, be it that it is not there.",
    ),
    key("all", ValueKind::Conditions, "Several conditions, all of which must hold."),
];

/// A limit as a table.
pub(crate) const LIMIT: &[SettingSpec] = &[
    key("algorithm", ValueKind::Word(ALGORITHMS), "How it counts; token_bucket if not said."),
    key("mode", ValueKind::Word(&["meter", "queue"]), "Whether a leaky bucket denies or delays."),
    key("count", ValueKind::Whole, "Units per period."),
    key("per", ValueKind::Text, "The period: a unit or a duration."),
    key("burst", ValueKind::Whole, "How much a bucket holds; the count if not said."),
    key("align", ValueKind::Word(&["epoch", "first", "calendar"]), "Where fixed windows begin."),
    key("zone", ValueKind::Text, "The IANA time zone of a calendar window; UTC if not said."),
];

/// The part of an address in `key`.
pub(crate) const ADDRESS: &[SettingSpec] = &[
    key(
        "v4",
        ValueKind::Bits(32),
        "The first bits of an IPv4 address that are counted; 32 if not said.",
    ),
    key(
        "v6",
        ValueKind::Bits(128),
        "The first bits of an IPv6 address that are counted; 64 if not said.",
    ),
];

/// `cost` as a table.
pub(crate) const COST: &[SettingSpec] = &[
    key("attribute", ValueKind::Text, "The attribute that says how many units."),
    key("multiplier", ValueKind::Whole, "What it is multiplied by; 1 if not said."),
    key("default", ValueKind::Whole, "Its value where a request lacks it; 1 if not said."),
];

/// `block_for` as a table.
pub(crate) const BLOCK: &[SettingSpec] = &[
    key("first", ValueKind::Duration, "How long the first time."),
    key("factor", ValueKind::Whole, "By how much each further time is longer; 1 if not said."),
    key("max", ValueKind::Duration, "The longest; needed with a factor."),
];

/// Every table and its keys.
pub(crate) const TABLES: &[(&str, &[SettingSpec])] = &[
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
