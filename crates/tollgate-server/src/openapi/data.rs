//! What programs, proxies and probes ask.

use serde_json::{Value, json};

use super::{Body, Method, Operation, Param};

const ENFORCE: Param = Param {
    name: "enforce",
    about: "Whether a denial is answered as the client should see it: 429, 403, 400, or 503 while the store is away",
    schema: r#"{"type": "boolean"}"#,
};

const REQUEST: Option<Body> = body("Request", r#"{"attributes": {"user": "42"}, "cost": 1}"#);
const ASKED: Option<Body> = body("Asked", r#"{"attributes": {"user": "42"}, "cost": 1}"#);

const fn body(schema: &'static str, example: &'static str) -> Option<Body> {
    Some(Body { of_type: "application/json", schema, example })
}

const fn post(path: &'static str, summary: &'static str, answer: &'static str) -> Operation {
    Operation { method: Method::Post, path, summary, answer, ..Operation::get() }
}

const fn text(path: &'static str, summary: &'static str) -> Operation {
    Operation { path, summary, answer_type: "text/plain", answer: "Text", ..Operation::get() }
}

/// All of them; `tests.rs` compares them with the routes.
pub(super) const OPERATIONS: [Operation; 16] = [
    Operation {
        query: &[ENFORCE],
        body: ASKED,
        ..post(
            "/v1/check",
            "Takes the cost of every rule that applies, if all allow it",
            "Decision",
        )
    },
    Operation {
        body: body("Batch", r#"{"requests": [{"attributes": {"user": "42"}}]}"#),
        ..post("/v1/check/batch", "Checks each by itself, in order", "Decisions")
    },
    Operation {
        query: &[ENFORCE],
        body: ASKED,
        ..post("/v1/peek", "What a check would say; takes nothing", "Decision")
    },
    Operation {
        body: REQUEST,
        ..post(
            "/v1/refund",
            "Gives back what a check of the same took, never above full",
            "Refunded",
        )
    },
    Operation {
        query: &[ENFORCE],
        body: body(
            "Reservation",
            r#"{"attributes": {"user": "42"}, "cost": 5, "timeout_ms": 30000}"#,
        ),
        ..post("/v1/reserve", "Takes the cost, to be settled later", "Reserved")
    },
    post("/v1/reserve/{id}/commit", "Keeps what was taken", "Settled"),
    post("/v1/reserve/{id}/cancel", "Gives back what was taken", "Settled"),
    Operation {
        body: body("Actual", r#"{"actual": 3}"#),
        ..post("/v1/reserve/{id}/settle", "Charges what was really used", "Settled")
    },
    authorize("/v1/authorize", "Asked by proxies, with any method and any query"),
    Operation {
        denies_without_body: true,
        ..authorize("/v1/authorize/{status}", "The same, denying with this status")
    },
    authorize("/v1/ext_authz/{path}", "The same for ext_authz of Envoy, of this path"),
    Operation {
        body: body(
            "RateLimitRequest",
            r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}"#,
        ),
        denies_alike: true,
        ..post("/json", "Envoy's rate limit service as JSON", "RateLimitResponse")
    },
    text("/healthz", "Whether the process lives"),
    text("/readyz", "Whether it should get requests"),
    text("/metrics", "For Prometheus"),
    Operation {
        path: "/openapi.json",
        summary: "This document",
        answer: "Document",
        ..Operation::get()
    },
];

const fn authorize(path: &'static str, summary: &'static str) -> Operation {
    Operation {
        path,
        summary,
        answer_type: "",
        answer: "It may pass",
        with_any_method: true,
        ..Operation::get()
    }
}

/// A part of a path.
pub(super) fn path_schema(name: &str) -> Value {
    match name {
        "path" => json!({"type": "string"}),
        "status" => json!({"type": "integer", "minimum": 400, "maximum": 599}),
        _ => json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
    }
}
