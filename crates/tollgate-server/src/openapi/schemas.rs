//! The shapes of what is sent and answered. The fuzzer compares every answer with them.

use serde_json::{Map, Value, json};

use crate::bounds::{
    Bounds, MAX_HOLD_TIME, MAX_LIMITS, MAX_SECONDS, MAX_SIMULATED_LIMITS, MAX_SIMULATED_TRAFFIC,
};
use crate::http::{REASONS, millis};

/// All of them, by name, for a server with these bounds.
pub(super) fn all(bounds: &Bounds) -> Value {
    let mut all = Map::new();
    for part in
        [asked(bounds), answered(), envoys(), asked_by_operators(), told_to_operators(), seen()]
    {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    Value::Object(all)
}

/// An object with these properties, of which some must be there, and no others.
fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// An object all of whose properties are always there.
fn whole(properties: Value) -> Value {
    let names: Vec<String> =
        properties.as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    object(properties, &names)
}

fn refer(name: &str) -> Value {
    super::refer(name)
}

fn list(of: &Value) -> Value {
    json!({"type": "array", "items": of})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn maybe(of: &str) -> Value {
    json!({"type": [of, "null"]})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

/// That, or null, which is as if it were not there.
fn or_null(of: Value) -> Value {
    json!({"oneOf": [of, {"type": "null"}]})
}

/// Where a page goes on.
fn next() -> Value {
    maybe("string")
}

/// Why a decision is as it is.
fn reason() -> Value {
    json!({"enum": REASONS})
}

/// A limit as text, or as a table.
fn limit() -> Value {
    let some = |least: u64| json!({"type": "integer", "minimum": least, "maximum": u64::MAX});
    let table = object(
        json!({
            "count": some(1), "per": text(), "burst": or_null(some(0)), "algorithm": maybe("string"),
            "mode": maybe("string"), "align": maybe("string"), "zone": maybe("string"),
        }),
        &["count", "per"],
    );
    json!({"oneOf": [text(), table], "examples": ["10/s burst 5", {"count": 1000, "per": "1h"}]})
}

fn asked(bounds: &Bounds) -> Value {
    let request = |more: &[(&str, Value)]| {
        let mut properties =
            json!({"attributes": refer("Attributes"), "cost": or_null(refer("Cost"))});
        more.iter().for_each(|(name, schema)| properties[*name] = schema.clone());
        object(properties, &[])
    };
    let most = millis(MAX_HOLD_TIME);
    let timeout = or_null(json!({"type": "integer", "minimum": 1, "maximum": most}));
    let own = [("key", maybe("string")), ("limits", refer("Limits"))];
    let requests = json!({"type": "array", "maxItems": bounds.batch, "items": refer("Asked")});
    let units = |least: u64| json!({"type": "integer", "minimum": least, "maximum": u64::MAX});
    json!({
        "Attributes": {
            "type": "object",
            "maxProperties": bounds.attributes,
            "additionalProperties": {"type": "string"},
            "description": format!("Values have at most {} bytes", bounds.key_length),
        },
        "Cost": units(0),
        "Limits": {
            "type": ["array", "null"], "minItems": 1, "maxItems": MAX_LIMITS, "items": limit(),
        },
        "Asked": request(&own),
        "Request": request(&[]),
        "Reservation": request(&[("timeout_ms", timeout)]),
        "Batch": object(json!({"requests": requests}), &["requests"]),
        "Actual": object(json!({"actual": units(0)}), &["actual"]),
    })
}

fn answered() -> Value {
    let figures = json!({
        "rule": maybe("string"), "allowed": truth(), "reason": reason(),
        "limit": maybe("integer"), "remaining": maybe("integer"),
        "retry_after_ms": maybe("integer"), "reset_after_ms": count(),
        "rules": list(&refer("RuleDecision")),
        "delay_ms": count(), "error": text(), "degraded": truth(), "leased": truth(),
    });
    let always = [
        "rule",
        "allowed",
        "reason",
        "limit",
        "remaining",
        "retry_after_ms",
        "reset_after_ms",
        "rules",
    ];
    let mut reserved = figures.clone();
    reserved["id"] = text();
    reserved["timeout_ms"] = count();
    let decision = object(figures, &always);
    json!({
        "Reserved": object(reserved, &always),
        "Decision": decision,
        "RuleDecision": object(json!({
            "rule": maybe("string"), "allowed": truth(), "shadow": truth(), "limit": count(), "leased": truth(),
            "remaining": count(), "retry_after_ms": maybe("integer"), "reset_after_ms": count(),
        }), &["rule", "allowed", "shadow", "limit", "remaining", "retry_after_ms", "reset_after_ms"]),
        "Decisions": whole(json!({"decisions": list(&refer("Decision"))})),
        "Refunded": object(json!({
            "reason": reason(), "degraded": truth(), "rules": list(&refer("RuleDecision")),
        }), &["reason", "rules"]),
        "Settled": whole(json!({"reserved": count(), "charged": count()})),
        "Text": text(),
        "Document": {"type": "object"},
        "Problem": object(json!({
            "type": text(), "title": text(), "status": count(), "detail": text(), "example": text(),
            "violated-policies": list(&text()), "errors": list(&refer("Finding")),
        }), &["type", "title", "status"]),
        "Finding": whole(json!({"file": text(), "line": count(), "rule": maybe("string"), "message": text()})),
    })
}

/// Messages of Envoy's rate limit service, as protobuf writes them in JSON.
fn envoys() -> Value {
    let small = || json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    let entry = object(json!({"key": text(), "value": text()}), &[]);
    let unit = json!({"enum": ["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"]});
    let limit = object(json!({"requestsPerUnit": small(), "unit": unit}), &[]);
    let descriptor = object(
        json!({
            "entries": list(&entry), "limit": or_null(limit), "isNegativeHits": truth(),
            "hitsAddend": or_null(json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})),
        }),
        &[],
    );
    let request = json!({
        "domain": text(), "descriptors": list(&descriptor), "hitsAddend": small(),
    });
    let current = object(json!({"requestsPerUnit": small(), "unit": text(), "name": text()}), &[]);
    let status = json!({
        "code": text(), "currentLimit": current, "limitRemaining": small(),
        "durationUntilReset": text(),
    });
    let response = json!({
        "overallCode": text(), "statuses": list(&object(status, &["code"])),
        "responseHeadersToAdd": list(&whole(json!({"key": text(), "value": text()}))),
        "rawBody": text(), "dynamicMetadata": {"type": "object"},
    });
    json!({
        "RateLimitRequest": object(request, &["domain", "descriptors"]),
        "RateLimitResponse": object(response, &["overallCode", "statuses"]),
    })
}

fn asked_by_operators() -> Value {
    let seconds = json!({"type": "integer", "minimum": 1, "maximum": MAX_SECONDS});
    let key = json!({"rule": text(), "key": refer("Attributes")});
    let by_key = object(key.clone(), &["rule", "key"]);
    let by_request = object(json!({"attributes": refer("Attributes")}), &["attributes"]);
    let mut key_for = key;
    key_for["for_seconds"] = seconds.clone();
    let request_for = json!({"attributes": refer("Attributes"), "for_seconds": seconds});
    let yes = json!({"const": true});
    let limit = json!({"oneOf": [text(), {"type": "array", "items": text(), "minItems": 1}]});
    json!({
        "Target": {"oneOf": [by_key, by_request]},
        "Block": {"oneOf": [
            object(key_for, &["rule", "key", "for_seconds"]),
            object(request_for, &["attributes", "for_seconds"]),
        ]},
        "Reset": {"oneOf": [
            by_key,
            object(json!({"rule": text(), "prefix": {"type": "string", "minLength": 1}}), &["rule", "prefix"]),
            object(json!({"rule": text(), "every_key": yes}), &["rule", "every_key"]),
            by_request,
            object(json!({"everything": yes}), &["everything"]),
        ]},
        "Client": object(json!({"client": refer("Attributes")}), &["client"]),
        "Override": object(json!({
            "client": refer("Attributes"),
            "tier": maybe("string"),
            "limits": {"type": "object", "additionalProperties": limit},
            "until": {"type": ["string", "null"], "format": "date-time"},
            "for_seconds": or_null(seconds),
        }), &["client"]),
        "Simulate": object(json!({
            "limits": {"type": "array", "items": text(), "minItems": 1, "maxItems": MAX_SIMULATED_LIMITS},
            "traffic": {"type": "array", "items": text(), "minItems": 1, "maxItems": MAX_SIMULATED_TRAFFIC},
            "compare": truth(),
            "seed": or_null(json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})),
        }), &["limits", "traffic"]),
        "PolicyText": {"type": "string", "description": "A policy file, in TOML"},
    })
}

fn told_to_operators() -> Value {
    let figures = json!({
        "limit": count(), "remaining": count(), "retry_after_ms": count(), "reset_after_ms": count(),
    });
    let mut key = figures.clone();
    (key["rule"], key["key"], key["whole"]) = (text(), refer("Attributes"), truth());
    (key["shadow"], key["blocked_ms"]) = (truth(), maybe("integer"));
    key["ignored_attributes"] = list(&text());
    let mut of_limit = figures;
    of_limit["numbers"] = text();
    let block = json!({
        "rule": text(), "key": refer("Attributes"), "whole": truth(), "left_ms": count(),
    });
    json!({
        "Info": whole(json!({
            "name": text(), "role": text(), "version": text(), "now": text(), "live_keys": maybe("integer"),
            "rules": count(), "policy_file": maybe("string"),
        })),
        "Keys": whole(json!({"keys": list(&whole(key)), "next": next()})),
        "KeyStatus": {"oneOf": [
            whole(json!({
                "rule": text(), "key": refer("Attributes"), "blocked_ms": maybe("integer"),
                "limits": list(&whole(of_limit)),
            })),
            refer("RequestStatus"),
        ]},
        "RequestStatus": request_status(),
        "Blocks": whole(json!({"blocks": list(&whole(block)), "next": next()})),
        "Overrides": whole(json!({
            "overrides": list(&whole(json!({
                "client": refer("Attributes"), "tier": maybe("string"),
                "limits": {"type": "object"}, "until": maybe("string"), "ended": truth(),
                "source": override_source(),
            }))),
            "next": next(),
        })),
        "Tiers": whole(json!({
            "tier_from": text(), "default_tier": maybe("string"), "tiers": {"type": "object"},
        })),
        "Policy": whole(json!({
            "version": text(), "file": maybe("string"), "rules": count(), "toml": text(),
            "policy": {"type": "object"},
        })),
        "Validation": whole(json!({
            "valid": truth(), "rules": count(),
            "errors": list(&refer("Finding")), "warnings": list(&refer("Finding")),
        })),
    })
}

/// What the server has seen of decisions and of changes.
fn seen() -> Value {
    let change = json!({
        "action": text(), "target": {"type": "object"}, "before": {"type": ["object", "null"]},
        "after": {"type": ["object", "null"]}, "result": {"type": "object"},
    });
    let mut entry = change.clone();
    (entry["at"], entry["actor"], entry["address"]) =
        (json!({"type": "string", "format": "date-time"}), text(), maybe("string"));
    json!({
        "Top": whole(json!({
            "by": text(), "window_ms": count(),
            "keys": list(&whole(json!({
                "rule": text(), "shadow": truth(), "key": refer("Attributes"), "whole": truth(),
                "seen": count(), "denied": count(), "would_deny": count(), "over": count(),
            }))),
        })),
        "Events": {
            "type": "string",
            "description": "Events called `sample`, whose data is a JSON object of counts since the start; see docs/page.md",
        },
        "Denials": whole(json!({"denials": list(&whole(json!({
            "rule": maybe("string"), "key": refer("Attributes"), "whole": truth(),
            "reason": reason(), "first": text(), "last": text(), "times": count(), "cost": count(), "limit": maybe("integer"),
            "retry_after_ms": maybe("integer"), "transport": text(),
        })))})),
        "Simulated": whole(json!({
            "length_ms": count(), "slot_ms": count(), "window_ms": count(), "notes": list(&text()),
            "runs": list(&whole(json!({
                "name": text(), "limits": list(&text()), "offered": count(), "tries": count(),
                "admitted": count(), "refused": count(), "unserved": count(),
                "most_in_window": count(), "wait_p50_ms": count(), "wait_p99_ms": count(),
                "admitted_by_slot": list(&count()), "refused_by_slot": list(&count()),
                "remaining_by_slot": list(&maybe("integer")),
            }))),
        })),
        "Change": whole(change.clone()),
        "Audit": whole(json!({"changes": list(&whole(entry))})),
    })
}

fn override_source() -> Value {
    json!({"type": "string", "enum": ["policy_file", "run_time"]})
}

fn override_source_or_null() -> Value {
    json!({"type": ["string", "null"], "enum": ["policy_file", "run_time", null]})
}

/// What a request would be answered, and why.
fn request_status() -> Value {
    let list_of = json!({
        "type": ["object", "null"],
        "properties": {"name": text(), "allows": truth()},
    });
    whole(json!({
        "attributes": refer("Attributes"), "allowed": truth(), "reason": reason(),
        "rule": maybe("string"), "retry_after_ms": maybe("integer"), "list": list_of,
        "tier": maybe("string"), "tier_from": text(), "degraded": truth(),
        "override_source": override_source_or_null(),
        "rules": list(&whole(json!({
            "rule": text(), "key": refer("Attributes"), "shadow": truth(), "numbers": list(&text()),
            "numbers_from": text(), "override_source": override_source_or_null(), "leased": truth(), "allowed": truth(), "limit": maybe("integer"),
            "remaining": maybe("integer"), "retry_after_ms": maybe("integer"),
            "reset_after_ms": maybe("integer"), "blocked_ms": maybe("integer"),
            "ignored_attributes": list(&text()),
        }))),
        "not_applied": list(&whole(json!({
            "rule": text(), "because": text(), "needs": list(&text()),
        }))),
    }))
}
