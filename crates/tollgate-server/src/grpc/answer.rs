//! What Envoy is told.

use std::collections::BTreeMap;
use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tollgate::{HeaderFields, Limit, Reason, RuleDecision, Ruling, Verbosity};

use super::ask::{Ask, UNITS};
use super::decide::Verdict;
use super::rate_limit_response::rate_limit::Unit;
use super::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use super::{HeaderValue, RateLimitResponse};
use crate::app::App;
use crate::http::{Problem, reason};
use crate::metrics::Transport;

/// What a limit that a client sends is called in the RateLimit fields.
const SENT: &str = "descriptor";

/// The figures of a verdict.
struct Told<'v> {
    status: DescriptorStatus,
    /// What decided, if anything did.
    rule: Option<&'v str>,
    /// Its name for clients, if it has one.
    public_rule: Option<&'v str>,
    reason: &'static str,
    /// Of a rule that only reports, whether it would have refused.
    shadow: Option<bool>,
    limit: u64,
    remaining: u64,
    /// After how long the same is allowed; `None` if never.
    retry_after: Option<Duration>,
}

/// The response to a request whose descriptors `asks` got `verdicts`.
pub(super) fn response(
    app: &App,
    transport: Transport,
    asks: &[Ask<'_>],
    verdicts: &[Verdict],
) -> RateLimitResponse {
    let mut told: Vec<Told<'_>> = verdicts.iter().map(told).collect();
    if app.settings.style.verbosity() != Verbosity::Full {
        // Envoy makes header fields of the limit, if its own configuration asks for them.
        told.iter_mut().for_each(|told| told.status.current_limit = None);
    }
    for ((told, verdict), ask) in told.iter_mut().zip(verdicts).zip(asks) {
        if is_without_rule(app, verdict, ask) {
            // As the reference server has it, which gives the maximum only for `unlimited`.
            told.status.limit_remaining = 0;
        }
    }
    let allowed = verdicts.iter().all(Verdict::is_allowed);
    let place = deciding(&told, verdicts, allowed);
    let statuses = told.iter_mut().map(|told| std::mem::take(&mut told.status)).collect();
    let mut response = RateLimitResponse {
        overall_code: code(allowed).into(),
        statuses,
        ..RateLimitResponse::default()
    };
    let (Some(told), Some(verdict)) = (told.get(place), verdicts.get(place)) else {
        return response;
    };
    let fields = fields(app, verdict);
    let headers = fields.iter().map(|(key, value)| header(key, value));
    response.response_headers_to_add = headers.collect();
    if !allowed {
        let refusal = refusal(app, verdict, &fields);
        // An answer that is let pass has a type of its own.
        response.response_headers_to_add.extend([
            header("content-type", "application/problem+json"),
            header("cache-control", "no-store"),
        ]);
        response.raw_body = refusal.json();
    }
    // Envoy writes metadata into its access log. A caller of JSON may be a client.
    let shown = if transport == Transport::Grpc { told.rule } else { told.public_rule };
    response.dynamic_metadata = told.rule.map(|_| metadata(shown, told, place));
    if let (Verdict::Ruled(ruling), Some(metadata)) = (verdict, &mut response.dynamic_metadata)
        && ruling.is_leased()
    {
        metadata.fields.insert("leased".to_owned(), Value { kind: Some(Kind::BoolValue(true)) });
    }
    response
}

/// Whether no rule applies to a descriptor, as opposed to one without a limit.
fn is_without_rule(app: &App, verdict: &Verdict, ask: &Ask<'_>) -> bool {
    let Verdict::Ruled(ruling) = verdict else { return false };
    ruling.reason() == Reason::NoRule
        && ruling.rules().next().is_none()
        && !app.backend.has_rule_for(&ask.descriptor.request())
}

/// Which descriptor decides: of those that refuse, the one with the longest wait; else the one
/// that has the smallest share left.
fn deciding(told: &[Told<'_>], verdicts: &[Verdict], allowed: bool) -> usize {
    let each = told.iter().zip(verdicts).enumerate();
    let refusing = each.filter(|(_, (_, verdict))| allowed || !verdict.is_allowed());
    let decided = refusing.reduce(|decided, other| {
        let (a, b) = (decided.1.0, other.1.0);
        let closer = if allowed {
            u128::from(b.remaining) * u128::from(a.limit)
                < u128::from(a.remaining) * u128::from(b.limit)
        } else {
            wait(b) > wait(a)
        };
        if closer { other } else { decided }
    });
    decided.map_or(0, |(place, _)| place)
}

fn wait(told: &Told<'_>) -> Duration {
    told.retry_after.unwrap_or(Duration::MAX)
}

fn told(verdict: &Verdict) -> Told<'_> {
    match verdict {
        Verdict::Ruled(ruling) => of_ruling(ruling),
        Verdict::Sent(limit, decision) => Told {
            status: DescriptorStatus {
                code: code(decision.is_allowed()).into(),
                current_limit: Some(current(limit, "")),
                limit_remaining: units(decision.remaining()),
                duration_until_reset: Some(whole_seconds(decision.reset_after())),
            },
            rule: None,
            public_rule: None,
            reason: "limits",
            shadow: None,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
        },
        Verdict::Nothing(numbers) => {
            let mut told = nothing((None, None), "limits");
            let unit = numbers.unit.into();
            told.status.current_limit = Some(RateLimit { unit, ..RateLimit::default() });
            told
        }
    }
}

fn of_ruling(ruling: &Ruling) -> Told<'_> {
    let (rule, reason) = (ruling.decided_by_name(), reason(ruling.reason()));
    let rules = (rule, ruling.public_rule());
    if ruling.reason() == Reason::DenyList {
        return nothing(rules, reason);
    }
    let Some(figures) = ruling.deciding_rule() else {
        // What a list, or a store that is away, has decided is no shadow's.
        let nobody_decided = ruling.is_allowed() && rule.is_none();
        let shadow = ruling.rules().find(|of| nobody_decided && of.is_shadow());
        return shadow.map_or_else(
            || unlimited(ruling, DescriptorStatus::default(), (rules, None)),
            |figures| in_shadow(ruling, &figures),
        );
    };
    Told {
        status: DescriptorStatus {
            code: code(ruling.is_allowed()).into(),
            current_limit: current_of(&figures),
            limit_remaining: units(figures.remaining()),
            duration_until_reset: Some(whole_seconds(figures.reset_after())),
        },
        rule,
        public_rule: rules.1,
        reason,
        shadow: None,
        limit: figures.limit(),
        remaining: figures.remaining(),
        retry_after: figures.retry_after(),
    }
}

/// The name of a rule, and its name for clients.
type RuleNamePair<'v> = (Option<&'v str>, Option<&'v str>);

/// Of what nothing limits; a status that has no figures says so.
fn unlimited<'v>(
    ruling: &Ruling,
    mut status: DescriptorStatus,
    ((rule, public_rule), shadow): (RuleNamePair<'v>, Option<bool>),
) -> Told<'v> {
    status.code = code(ruling.is_allowed()).into();
    if shadow.is_none() {
        status.limit_remaining = u32::MAX;
    }
    Told {
        status,
        rule,
        public_rule,
        reason: reason(ruling.reason()),
        shadow,
        limit: u64::MAX,
        remaining: u64::MAX,
        retry_after: ruling.retry_after(),
    }
}

/// Of what only a rule that reports is about: its figures, as the reference server gives them, and
/// it is let pass. It decides nothing, so that it never stands before one that does.
fn in_shadow<'v>(ruling: &Ruling, figures: &RuleDecision<'v>) -> Told<'v> {
    let refuses = !figures.is_allowed();
    let status = DescriptorStatus {
        current_limit: current_of(figures),
        limit_remaining: if refuses { 0 } else { units(figures.remaining()) },
        duration_until_reset: Some(whole_seconds(figures.reset_after())),
        ..DescriptorStatus::default()
    };
    let rules = (Some(figures.rule()), figures.public_name());
    unlimited(ruling, status, (rules, Some(refuses)))
}

/// Of what never passes.
fn nothing<'v>((rule, public_rule): RuleNamePair<'v>, reason: &'static str) -> Told<'v> {
    let name = public_rule.unwrap_or_default().to_owned();
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit { name, ..RateLimit::default() }),
        ..DescriptorStatus::default()
    };
    Told {
        status,
        rule,
        public_rule,
        reason,
        shadow: None,
        limit: 0,
        remaining: 0,
        retry_after: None,
    }
}

fn code(allowed: bool) -> Code {
    if allowed { Code::Ok } else { Code::OverLimit }
}

/// The limit of a rule, under the name that clients see.
fn current_of(figures: &RuleDecision<'_>) -> Option<RateLimit> {
    let name = figures.public_name().unwrap_or_default();
    figures.limit_config().map(|limit| current(limit, name))
}

fn current(limit: &Limit, name: &str) -> RateLimit {
    let unit = UNITS.iter().find(|(_, length)| *length == limit.period());
    // Without a unit, Envoy tells its clients of no window.
    let unit = unit.map_or(Unit::Unknown, |(unit, _)| *unit);
    RateLimit { requests_per_unit: units(limit.count()), unit: unit.into(), name: name.to_owned() }
}

fn units(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Rounded up: Envoy cuts off what is less than a second.
fn whole_seconds(wait: Duration) -> prost_types::Duration {
    let seconds = wait.as_nanos().div_ceil(1_000_000_000);
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

fn fields(app: &App, verdict: &Verdict) -> HeaderFields {
    match verdict {
        Verdict::Ruled(ruling) => app.fields(ruling),
        Verdict::Sent(limit, decision) => {
            let style = app.settings.style;
            style.for_decision((SENT, limit), decision, app.backend.clock())
        }
        Verdict::Nothing(_) => HeaderFields::new(),
    }
}

fn refusal(app: &App, verdict: &Verdict, fields: &HeaderFields) -> Problem {
    // Envoy answers with this status unless it is told otherwise.
    let status = ::http::StatusCode::TOO_MANY_REQUESTS;
    match verdict {
        Verdict::Ruled(ruling) => app.refusal(ruling, fields).with_status(status),
        _ => Problem::limited(Vec::new(), fields, app.settings.style.verbosity()),
    }
}

/// As `value`: Envoy makes nothing of a header that only has `raw_value`.
fn header(key: &str, value: &str) -> HeaderValue {
    HeaderValue { key: key.to_owned(), value: value.to_owned() }
}

/// What decided, for Envoy's access log.
fn metadata(rule: Option<&str>, told: &Told<'_>, place: usize) -> Struct {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    let mut fields = BTreeMap::from([
        ("reason".to_owned(), text(told.reason)),
        ("descriptor".to_owned(), Value { kind: Some(Kind::NumberValue(place.into())) }),
    ]);
    if let Some(rule) = rule {
        fields.insert("rule".to_owned(), text(rule));
    }
    if let Some(refuses) = told.shadow {
        let truth = |is_so| Value { kind: Some(Kind::BoolValue(is_so)) };
        fields.insert("shadow".to_owned(), truth(true));
        fields.insert("over_limit".to_owned(), truth(refuses));
    }
    Struct { fields }
}
