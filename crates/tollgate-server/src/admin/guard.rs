//! Who is let in.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::response::Response;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{Request, StatusCode};
use serde_json::json;
use tollgate_tower::PeerAddr;

use super::Operators;
use super::audit::Entry;
use super::call::{Answer, Begun, Call, Reply, Who, at};
use super::routes::{Answering, Route};
use super::tokens::{AdminRole, TokenDigest};
use crate::app::App;
use crate::http::{Problem, is_of_another_site, is_origin_of, is_this_machine};

/// Headers that a proxy adds: what it hands on is not from this machine.
const PROXIED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Why somebody is not let in.
enum Kept {
    /// Nobody knows who it is: what to say, and what of the token.
    Unknown(&'static str, &'static str),
    /// It is known, and may only look.
    MayOnlyRead,
    TooManyTries(u64),
}

/// Answers an operator, if it is one.
pub(super) async fn answer(
    app: Arc<App>,
    route: &'static Route,
    request: Request<axum::body::Body>,
) -> Response {
    let (head, body) = request.into_parts();
    let peer = head.extensions.get::<PeerAddr>().map(|PeerAddr(peer)| peer.ip().to_canonical());
    let who = match app.operators.let_in(&head.headers, peer, route.role) {
        Ok(who) => who,
        Err(kept) => {
            let path = route.operation.path;
            if let Some(left_out) = app.operators.kept_out.may_log(app.backend.clock().now()) {
                tracing::warn!(?peer, path, left_out, "an operator was not let in");
            }
            return app.count_bad(kept.response());
        }
    };
    let (app_of_call, begun) = (Arc::clone(&app), Begun::default());
    let call =
        Call { app: app_of_call, who: who.clone(), uri: head.uri, body, begun: begun.clone() };
    let answering = (route.answer)(call);
    // By itself, so that who hangs up meanwhile leaves nothing half done, and no change unwritten.
    let answered = changed_and_written(answering, begun, Arc::clone(&app), who);
    let answered = app.tasks.spawn(answered);
    match answered.await {
        Ok(Some(Ok(reply))) => reply.response(),
        Ok(Some(Err(problem))) => app.bad(&problem),
        Ok(None) | Err(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, BROKE_OFF).response(),
    }
}

const BROKE_OFF: &str = "it broke off, some of it may have been done: see the log";

/// Waits for an answer, and writes down what was changed, or what failed and may have been done in
/// part; `None` where it broke off.
pub(super) async fn changed_and_written(
    answering: Answering,
    begun: Begun,
    app: Arc<App>,
    who: Who,
) -> Option<Answer> {
    // By itself, so that what breaks off is written down, too.
    let answered = tokio::spawn(answering).await.ok();
    let failed = match &answered {
        None => Some(BROKE_OFF),
        Some(Err(problem)) => problem.our_fault(),
        Some(Ok(_)) => None,
    };
    let change = match (&answered, failed) {
        (Some(Ok(Reply::Changed(change))), _) => Some(change.clone()),
        (_, Some(detail)) => begun.take().map(|change| change.result(json!({"failed": detail}))),
        _ => None,
    };
    if let Some(change) = change {
        let (at, Who { name, from, .. }) = (at(app.backend.clock().now()), who);
        let entry = Entry { at, actor: name, address: from, change };
        app.operators.audit.add(entry).await;
    }
    answered
}

/// What who has no token can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Open,
    /// Nothing without one.
    Token,
    /// Nothing, and there is none.
    Closed,
}

impl Access {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::Token => "token",
            Access::Closed => "closed",
        }
    }
}

impl Operators {
    /// What who asks so would see without a token.
    pub(crate) fn access(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Access {
        let peer = peer.map(|peer| peer.to_canonical());
        match self.let_in_without(headers, peer) {
            Ok(_) => Access::Open,
            Err(_) if self.tokens.get().is_empty() => Access::Closed,
            Err(_) => Access::Token,
        }
    }

    fn let_in(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        needed: AdminRole,
    ) -> Result<Who, Kept> {
        let Some(given) = headers.get(AUTHORIZATION) else {
            return self.let_in_without(headers, peer);
        };
        let limiter = self.wrong_tokens.as_ref();
        let address = peer.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), network);
        if let Some(wait) = limiter.map(|limiter| limiter.status(address).retry_after())
            && !wait.is_zero()
        {
            return Err(Kept::TooManyTries(
                wait.as_millis().div_ceil(1000).try_into().unwrap_or(1),
            ));
        }
        let tokens = self.tokens.get();
        let token = bearer(given).map(TokenDigest::of);
        let Some((name, role)) = token.and_then(|token| tokens.find(&token)) else {
            if let Some(limiter) = limiter {
                // Counted only: what it says was asked for above.
                let _ = limiter.check(address).is_allowed();
            }
            let detail = match token {
                Some(_) => "the token is wrong",
                None => {
                    "the Authorization header is no Bearer token: send Authorization: Bearer TOKEN"
                }
            };
            return Err(Kept::Unknown(detail, ", error=\"invalid_token\""));
        };
        if role < needed {
            return Err(Kept::MayOnlyRead);
        }
        Ok(Who { name: name.to_owned(), role, token, from: peer })
    }

    /// Whether who was let in would be let in again as the same.
    pub(super) fn is_still(&self, who: &Who) -> bool {
        let Some(token) = &who.token else { return true };
        self.tokens.get().find(token) == Some((who.name.as_str(), who.role))
    }

    /// Who has no token is let in only from this machine, and only if the operator wants it so.
    fn let_in_without(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Who, Kept> {
        let local = peer.is_some_and(|peer| peer.is_loopback());
        if !self.insecure || !local {
            return Err(Kept::Unknown(
                match (self.tokens.get().is_empty(), self.insecure) {
                    (true, false) => {
                        "there are no tokens: start the server with --admin-tokens FILE, or with \
                         --insecure-admin to let in everybody on its machine"
                    }
                    _ => "there is no token: send Authorization: Bearer TOKEN",
                },
                "",
            ));
        }
        if PROXIED.iter().any(|name| headers.contains_key(*name)) {
            return Err(Kept::Unknown("what comes through a proxy needs a token", ""));
        }
        // A browser on this machine asks for whatever page it shows: for ours only if that is ours.
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_of_host =
            |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| is_origin_of(origin, host));
        if is_of_another_site(headers)
            || !headers.get_all(ORIGIN).iter().all(is_of_host)
            || !is_this_machine(host)
        {
            return Err(Kept::Unknown("a page of another site needs a token", ""));
        }
        let name = "--insecure-admin".to_owned();
        Ok(Who { name, role: AdminRole::Write, token: None, from: peer })
    }
}

/// The token of an `Authorization` header.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Who tries from one address: of version 6, everybody in a network.
pub(crate) fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

impl Kept {
    fn response(&self) -> Response {
        let (status, detail, challenge) = match self {
            Kept::Unknown(detail, challenge) => {
                (StatusCode::UNAUTHORIZED, (*detail).to_owned(), Some(*challenge))
            }
            Kept::MayOnlyRead => {
                let detail = "this token may only read, and this changes something";
                let challenge = ", error=\"insufficient_scope\", scope=\"write\"";
                (StatusCode::FORBIDDEN, detail.to_owned(), Some(challenge))
            }
            Kept::TooManyTries(seconds) => {
                let detail = format!("too many wrong tokens, try again in {seconds} seconds");
                (StatusCode::TOO_MANY_REQUESTS, detail, None)
            }
        };
        let mut response = Problem::new(status, detail).response();
        let headers = response.headers_mut();
        if let Some(challenge) = challenge {
            let challenge = format!("Bearer realm=\"tollgate admin\"{challenge}");
            if let Ok(challenge) = HeaderValue::try_from(challenge) {
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
        }
        if let Kept::TooManyTries(seconds) = self {
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(*seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use tollgate::{Gate, Policy};

    use super::super::change::Change;
    use super::*;
    use crate::app::Settings;
    use crate::backend::Backend;

    #[tokio::test]
    async fn a_change_that_breaks_off_is_written_down() {
        let backend = Backend::Memory(Gate::new(Policy::new()).unwrap());
        let app = Arc::new(App::new(backend, Settings::default()));
        let role = AdminRole::Write;
        let who = Who { name: "walt".to_owned(), role, token: None, from: None };
        let call = Call {
            app: Arc::clone(&app),
            who: who.clone(),
            uri: Uri::from_static("/"),
            body: axum::body::Body::empty(),
            begun: Begun::default(),
        };
        let begun = call.begun.clone();
        let answering: Answering = Box::pin(async move {
            call.begun.change("reset", json!({"everything": true}));
            panic!("on purpose")
        });
        assert!(changed_and_written(answering, begun, Arc::clone(&app), who).await.is_none());
        let written = app.operators.audit.list(1).pop().unwrap();
        let change = Change::new("reset", json!({"everything": true}));
        let change = change.result(json!({"failed": BROKE_OFF}));
        assert_eq!((&written.change, &written.actor[..]), (&change, "walt"));
    }

    #[test]
    fn a_token_is_what_follows_the_scheme() {
        let token = |value: &'static str| bearer(&HeaderValue::from_static(value)).is_some();
        assert!(token("Bearer abc") && token("bearer abc"));
        assert!(!token("Basic abc") && !token("abc") && !token("") && !token("Bearerabc"));
    }

    #[test]
    fn addresses_of_one_network_try_together() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
