//! The policy: what is in force, whether another would be right, and putting it in force.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};
use tollgate::{Diagnostic, LoadedPolicy, Policy, PolicyError, PolicyFileError, ReplaceOutcome};
use toml::de::{DeTable, DeValue};

use super::call::{Answer, Begun, Call, Reply, Who, wrong};
use super::change::Change;
use super::policy_changes::changes;
use super::policy_source::SourceRead;
use super::{AdminRole, guard};
use crate::app::App;
use crate::bounds::MAX_POLICY;
use crate::http::Problem;
use crate::operate::{AdminFailure, blocking};
use crate::policy_version::version;

pub(super) const EXAMPLE: &str =
    "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nlimit = \"100/min burst 20\"\n";

/// What messages call a policy that was sent.
const SENT: &str = "policy";

/// A policy as it is shown.
struct Shown {
    toml: String,
    version: String,
}

impl Shown {
    /// Written anew: what the file looked like is not kept.
    async fn new(policy: Arc<Policy>) -> Result<Shown, AdminFailure> {
        blocking(move || {
            let toml = policy.to_toml();
            let version = version(&toml);
            Shown { toml, version }
        })
        .await
    }
}

pub(super) async fn show(call: Call) -> Answer {
    call.query(&[])?;
    let policy = call.app.backend.policy();
    let rules = policy.rules.len();
    let Shown { toml, version } = Shown::new(policy).await?;
    let as_json = DeTable::parse(&toml).map_or(Value::Null, |table| table_json(table.get_ref()));
    let file = call.app.operators.policy_name();
    let told = json!({
        "version": version, "file": file, "rules": rules, "toml": toml, "policy": as_json,
    });
    Ok(Reply::Told(told))
}

pub(super) async fn show_toml(call: Call) -> Answer {
    call.query(&[])?;
    let shown = Shown::new(call.app.backend.policy()).await?;
    Ok(Reply::Text("application/toml", shown.toml))
}

fn table_json(table: &DeTable<'_>) -> Value {
    let entry = |(name, value): (
        &toml::Spanned<std::borrow::Cow<'_, str>>,
        &toml::Spanned<DeValue<'_>>,
    )| { (name.get_ref().to_string(), value_json(value.get_ref())) };
    Value::Object(table.iter().map(entry).collect::<Map<_, _>>())
}

fn value_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let whole = u64::from_str_radix(number.as_str(), number.radix()).map(Value::from);
            whole.unwrap_or_else(|_| number.as_str().into())
        }
        DeValue::Boolean(is) => (*is).into(),
        DeValue::Array(values) => values.iter().map(|value| value_json(value.get_ref())).collect(),
        DeValue::Table(table) => table_json(table),
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Datetime(moment) => moment.to_string().into(),
    }
}

/// Reads the policy that was sent.
async fn sent(call: &mut Call) -> Result<Result<LoadedPolicy, PolicyFileError>, Problem> {
    let body = call.bytes(MAX_POLICY).await?;
    if body.trim_ascii().is_empty() {
        let detail = "the body is empty, which as a policy would let everything pass: send the \
                      policy, or a comment if you mean that";
        return Err(wrong(detail).example(EXAMPLE));
    }
    let Ok(text) = String::from_utf8(body.to_vec()) else {
        return Err(wrong("the body is not UTF-8, it must be a policy in TOML").example(EXAMPLE));
    };
    Ok(blocking(move || Policy::from_toml(SENT, &text)).await?)
}

pub(super) async fn validate(mut call: Call) -> Answer {
    call.query(&[])?;
    let told = match sent(&mut call).await? {
        Ok(loaded) => json!({
            "valid": true, "rules": loaded.policy.rules.len(),
            "errors": [], "warnings": findings(&loaded.warnings),
        }),
        Err(error) => json!({
            "valid": false, "rules": 0,
            "errors": findings(&error.diagnostics), "warnings": [],
        }),
    };
    Ok(Reply::Told(told))
}

fn findings(findings: &[Diagnostic]) -> Value {
    let told = findings.iter().map(|of| {
        json!({
            "file": of.file, "line": of.line, "rule": of.rule, "message": of.message,
        })
    });
    told.collect()
}

pub(super) async fn apply(mut call: Call) -> Answer {
    let query = call.query(&["if_version"])?;
    let app = Arc::clone(&call.app);
    let loaded = sent(&mut call).await?.map_err(|error| refused(&app, &error))?;
    let note = app.operators.policy_name().map(|file| {
        format!("{file} replaces this policy when it changes, put the change there, too")
    });
    loop {
        let seen = Seen::new(&app).await?;
        if let Some(wanted) = query.get("if_version")
            && wanted != seen.version
        {
            let detail =
                format!("version {} is in force: look at it, and decide again", seen.version);
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, detail));
        }
        let putting = put_in_force((&app, &call.begun), &seen, &loaded, ("apply", note.clone()));
        if let Some(reply) = putting.await? {
            return Ok(reply);
        }
    }
}

pub(super) async fn reload(call: Call) -> Answer {
    call.query(&[])?;
    read_again(&call.app, &call.begun).await
}

/// Reads the policy again for somebody who is called so in the audit log and is no client, and says
/// in the log what came of it.
pub(crate) async fn reload_as(app: Arc<App>, name: &str) {
    let (begun, again) = (Begun::default(), Arc::clone(&app));
    let who = Who { name: name.to_owned(), role: AdminRole::Write, token: None, from: None };
    let begins = begun.clone();
    let answering = Box::pin(async move { read_again(&again, &begins).await });
    let _ = guard::changed_and_written(answering, begun, app, who).await;
}

/// Puts in force what the policy's file or folder holds now.
async fn read_again(app: &App, begun: &Begun) -> Answer {
    let Some(source) = app.operators.policy_source.clone() else {
        let detail = "there is no policy file to read again: start the server with --policy FILE, \
                      or send a policy with PUT /admin/v1/policy";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    };
    loop {
        // Before the file, so that nothing that was read later is replaced.
        let seen = Seen::new(app).await?;
        let read = source.clone().load().await?.map_err(|error| {
            error.diagnostics.iter().for_each(|finding| tracing::error!("{finding}"));
            tracing::error!("the policy was read again and stays as it was");
            refused(app, &error)
        })?;
        let SourceRead { mut loaded, rejected, rejects_more } = read;
        if rejects_more {
            app.metrics.reloads.file_rejected();
        }
        let warnings = loaded.warnings.clone();
        // They were logged as errors, and are part of the answer.
        loaded.warnings.extend(rejected);
        if let Some(reply) = put_in_force((app, begun), &seen, &loaded, ("reload", None)).await? {
            warnings.iter().for_each(|finding| tracing::warn!("{finding}"));
            tracing::info!(rules = loaded.policy.rules.len(), "the policy was read again");
            return Ok(reply);
        }
    }
}

/// The policy that a change begins with.
pub(super) struct Seen {
    pub(super) policy: Arc<Policy>,
    pub(super) version: String,
}

impl Seen {
    async fn new(app: &App) -> Result<Seen, AdminFailure> {
        let policy = app.backend.policy();
        let version = Shown::new(Arc::clone(&policy)).await?.version;
        Ok(Seen { policy, version })
    }
}

/// Replaces the policy that was seen; `None` where somebody else has by now, the file's watcher
/// perhaps: then there is another to be seen.
async fn put_in_force(
    (app, begun): (&App, &Begun),
    seen: &Seen,
    loaded: &LoadedPolicy,
    (action, note): (&'static str, Option<String>),
) -> Result<Option<Reply>, Problem> {
    let policy = loaded.policy.clone();
    let after = Shown::new(Arc::new(policy.clone())).await?.version;
    let change = policy_change(app, action, seen, &policy, &after);
    begun.change(action, change.target.clone());
    let (backend, replaced) = (app.backend.clone(), Arc::clone(&seen.policy));
    let replaced = blocking(move || backend.activate(&replaced, policy)).await?;
    if replaced.map_err(|error| impossible(app, &error))? == ReplaceOutcome::Conflict {
        return Ok(None);
    }
    app.count_policy_change();
    let (rules, warnings) = (loaded.policy.rules.len(), findings(&loaded.warnings));
    let result = json!({"version": after, "rules": rules, "warnings": warnings, "note": note});
    Ok(Some(Reply::Changed(change.result(result))))
}

/// The change from the policy that was seen to another, of this version.
pub(super) fn policy_change(
    app: &App,
    action: &'static str,
    seen: &Seen,
    policy: &Policy,
    version: &str,
) -> Change {
    let file = app.operators.policy_name();
    let target = json!({"policy": file, "changes": changes(&seen.policy, policy)});
    let value =
        |version: &str, policy: &Policy| json!({"version": version, "rules": policy.rules.len()});
    let before = value(&seen.version, &seen.policy);
    Change::new(action, target).values(before, value(version, policy))
}

/// A policy that is refused as a whole, with everything that is wrong with it.
fn refused(app: &App, error: &PolicyFileError) -> Problem {
    app.metrics.reloads.refused();
    let detail = match error.diagnostics.as_slice() {
        [one] => format!("the policy in force stays: {one}"),
        several => format!("the policy in force stays, {} things are wrong", several.len()),
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).errors(findings(&error.diagnostics))
}

/// What the store refuses though the policy was found right.
fn impossible(app: &App, error: &PolicyError) -> Problem {
    app.metrics.reloads.refused();
    error.problems.iter().for_each(|problem| tracing::error!("{problem}"));
    let told = error.problems.iter();
    let told = told
        .map(|of| json!({"file": "policy", "line": 0, "rule": null, "message": of.to_string()}));
    let detail = "the policy in force stays, the store cannot keep this one";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).errors(told.collect())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use axum::body::Body;
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;
    use tollgate::Gate;

    use super::*;
    use crate::app::Settings;
    use crate::backend::Backend;

    fn policy(limit: u32) -> Policy {
        let text = format!("[[rule]]\nname = \"one\"\nlimit = \"{limit}/h\"\n");
        Policy::from_toml("test.toml", &text).unwrap().policy
    }

    /// A piece of blocking work that ends when this is dropped.
    struct Barrier {
        _release: mpsc::Sender<()>,
    }

    impl Barrier {
        /// Queues a barrier behind the blocking work that is queued; the second part is ready when
        /// that work is done.
        fn queue() -> (Barrier, oneshot::Receiver<()>) {
            let (starts, started) = oneshot::channel();
            let (release, released) = mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || {
                starts.send(()).unwrap();
                assert!(released.recv().is_err());
            });
            (Barrier { _release: release }, started)
        }
    }

    /// Applies `policy(2)` by the admin API, with the version of the active policy. When that call has
    /// done `pieces` pieces of blocking work, activates `policy(3)`, as the watcher of the file does.
    /// The runtime must have one thread for all blocking work.
    async fn apply_and_replace(app: &Arc<App>, pieces: usize) -> Answer {
        let seen = Shown::new(app.backend.policy()).await.ok().unwrap();
        let who = Who { name: "ana".to_owned(), role: AdminRole::Write, token: None, from: None };
        let uri = format!("/admin/v1/policy?if_version={}", seen.version).parse().unwrap();
        let (body, begun) = (Body::from(policy(2).to_toml()), Begun::default());
        let mut applying = pin!(apply(Call { app: Arc::clone(app), who, uri, body, begun }));
        let (mut barrier, started) = Barrier::queue();
        started.await.unwrap();
        for _ in 0..pieces {
            let polled = poll_fn(|context| Poll::Ready(applying.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            let (next, started) = Barrier::queue();
            drop(std::mem::replace(&mut barrier, next));
            started.await.unwrap();
        }
        let polled = poll_fn(|context| Poll::Ready(applying.as_mut().poll(context))).await;
        app.backend.replace(policy(3)).unwrap();
        drop(barrier);
        match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending => applying.await,
        }
    }

    #[test]
    fn change_of_a_named_version_undoes_no_policy_that_is_put_in_force_meanwhile() {
        let runtime =
            Builder::new_current_thread().max_blocking_threads(1).enable_time().build().unwrap();
        // The call reads the new policy, names the old one, names the new one and activates it.
        let statuses = [0, 1, 2, 3, 4].map(|pieces| {
            let gate = Gate::new(policy(1)).unwrap();
            let app = Arc::new(App::new(Backend::Memory(gate), Settings::default()));
            let answer = runtime.block_on(apply_and_replace(&app, pieces));
            assert_eq!(*app.backend.policy(), policy(3), "after {pieces} pieces");
            answer.err().map_or(StatusCode::OK, |problem| problem.status())
        });
        let refused = StatusCode::PRECONDITION_FAILED;
        assert_eq!(statuses, [refused, refused, refused, refused, StatusCode::OK]);
    }
}
