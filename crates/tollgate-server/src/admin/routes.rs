//! Every question of operators: its path, who may ask it, what it means, what answers it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::{MethodFilter, on};

use super::call::{Answer, Call};
use super::tokens::AdminRole;
use super::{blocks, events, guard, keys, overrides, policy, seen, simulate};
use crate::app::App;
use crate::openapi::{Body, Method, Operation, Param};

/// A question of operators.
pub(crate) struct Route {
    pub(crate) operation: Operation,
    pub(crate) role: AdminRole,
    pub(super) answer: fn(Call) -> Answering,
}

/// What an answer is waited for with.
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

const LIMIT: Param = Param {
    name: "limit",
    about: "How many entries at most",
    schema: r#"{"type": "integer", "minimum": 1, "maximum": 1000}"#,
};
const CURSOR: Param = Param {
    name: "cursor",
    about: "The `next` of an earlier answer, to get what follows",
    schema: r#"{"type": "string", "pattern": "^([0-9a-f]{2})+$"}"#,
};
const RULE: Param = text("rule", "Only keys of this rule");
const CONTAINS: Param = text("contains", "Only keys of which some value holds this");
const ATTRIBUTES: Param = Param {
    name: "attributes",
    about: "Only keys that hold one of these attributes, and none with another value",
    schema: r##"{"$ref": "#/components/schemas/Attributes"}"##,
};

const fn text(name: &'static str, about: &'static str) -> Param {
    Param { name, about, schema: r#"{"type": "string"}"# }
}

const fn look(path: &'static str, summary: &'static str, answer: &'static str) -> Operation {
    Operation { path, summary, answer, ..Operation::get() }
}

const fn json(schema: &'static str, example: &'static str) -> Option<Body> {
    Some(Body { of_type: "application/json", schema, example })
}

const POLICY: Option<Body> =
    Some(Body { of_type: "application/toml", schema: "PolicyText", example: policy::EXAMPLE });

/// All of them. Whoever adds one says here who may ask it.
pub(crate) static ROUTES: [Route; 21] = [
    Route {
        operation: look("/admin/v1/info", "Who asks, and what of", "Info"),
        role: AdminRole::Read,
        answer: |call| Box::pin(seen::info(call)),
    },
    Route {
        operation: Operation {
            query: &[
                RULE,
                text("prefix", "Only keys whose first value begins so"),
                CONTAINS,
                ATTRIBUTES,
                Param {
                    name: "limited",
                    about: "Only keys that would be denied now",
                    schema: r#"{"type": "boolean"}"#,
                },
                LIMIT,
                CURSOR,
            ],
            ..look(
                "/admin/v1/keys",
                "Active keys; go on while there is a `next`, also from an empty page",
                "Keys",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(keys::list(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Target", keys::STATUS_EXAMPLE),
            ..look(
                "/admin/v1/keys/status",
                "Status of a key, or the ruling on a request and its reasons",
                "KeyStatus",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(keys::status(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Reset", keys::RESET_EXAMPLE),
            ..look("/admin/v1/keys/reset", "Makes keys new and lifts their blocks", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(keys::reset(call)),
    },
    Route {
        operation: Operation {
            query: &[LIMIT, CURSOR],
            ..look("/admin/v1/blocks", "Keys that are blocked", "Blocks")
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(blocks::list(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Block", blocks::BLOCK_EXAMPLE),
            ..look("/admin/v1/blocks", "Denies a key for a time", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(blocks::block(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Target", blocks::LIFT_EXAMPLE),
            ..look("/admin/v1/blocks/lift", "Lifts a block", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(blocks::lift(call)),
    },
    Route {
        operation: Operation {
            query: &[LIMIT, CURSOR],
            ..look(
                "/admin/v1/overrides",
                "Clients with a tier or numbers of their own",
                "Overrides",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(overrides::list(call)),
    },
    Route {
        operation: Operation {
            method: Method::Put,
            body: json("Override", overrides::SET_EXAMPLE),
            ..look(
                "/admin/v1/overrides",
                "Gives a client a tier or numbers of its own, in place of what it had",
                "Change",
            )
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(overrides::set(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Client", overrides::REMOVE_EXAMPLE),
            ..look("/admin/v1/overrides/remove", "Makes a client like all others", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(overrides::remove(call)),
    },
    Route {
        operation: look("/admin/v1/tiers", "The tiers of the policy in force", "Tiers"),
        role: AdminRole::Read,
        answer: |call| Box::pin(overrides::tiers(call)),
    },
    Route {
        operation: look("/admin/v1/policy", "The policy in force, as TOML and as JSON", "Policy"),
        role: AdminRole::Read,
        answer: |call| Box::pin(policy::show(call)),
    },
    Route {
        operation: Operation {
            answer_type: "application/toml",
            ..look("/admin/v1/policy.toml", "The policy in force, as a file", "PolicyText")
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(policy::show_toml(call)),
    },
    Route {
        operation: Operation {
            method: Method::Put,
            query: &[text("if_version", "Only in place of this version")],
            body: POLICY,
            ..look("/admin/v1/policy", "Puts a policy in force, as a whole or not at all", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(policy::apply(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: POLICY,
            ..look(
                "/admin/v1/policy/validate",
                "Everything that is wrong with a policy",
                "Validation",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(policy::validate(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            ..look("/admin/v1/reload", "Reads the policy file again", "Change")
        },
        role: AdminRole::Write,
        answer: |call| Box::pin(policy::reload(call)),
    },
    Route {
        operation: Operation {
            query: &[
                Param {
                    name: "by",
                    about: "By requests, by denials, or by what shadow rules would have denied",
                    schema: r#"{"type": "string", "enum": ["traffic", "denials", "would_deny"]}"#,
                },
                RULE,
                LIMIT,
            ],
            ..look("/admin/v1/top", "The keys with the most requests of the last minutes", "Top")
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(seen::top(call)),
    },
    Route {
        operation: Operation {
            query: &[RULE, CONTAINS, ATTRIBUTES, LIMIT],
            ..look("/admin/v1/denials", "Who was denied lately, and why", "Denials")
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(seen::denials(call)),
    },
    Route {
        operation: Operation {
            method: Method::Post,
            body: json("Simulate", simulate::EXAMPLE),
            ..look(
                "/admin/v1/simulate",
                "What limits would do to traffic that is made up; no key is touched",
                "Simulated",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(simulate::simulate(call)),
    },
    Route {
        operation: Operation {
            query: &[LIMIT],
            answer_type: "text/event-stream",
            ..look(
                "/admin/v1/events",
                "Counts, latency, health and who is denied, every second, as server-sent events",
                "Events",
            )
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(events::events(call)),
    },
    Route {
        operation: Operation {
            query: &[LIMIT],
            ..look("/admin/v1/audit", "Who changed what, the latest first", "Audit")
        },
        role: AdminRole::Read,
        answer: |call| Box::pin(seen::audit(call)),
    },
];

/// The router of all of them, each behind its guard.
pub(crate) fn router() -> Router<Arc<App>> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        let filter = match route.operation.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
        };
        let answer = move |State(app): State<Arc<App>>, request: Request| async move {
            guard::answer(app, route, request).await
        };
        router.route(route.operation.path, on(filter, answer))
    })
}

/// All that operators can ask, for who asks something else.
pub(crate) fn asked() -> String {
    let all = ROUTES.iter().map(|Route { operation: of, .. }| format!("{} {}", of.method, of.path));
    all.collect::<Vec<_>>().join(", ")
}
