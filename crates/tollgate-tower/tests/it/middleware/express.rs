//! The short way of a layer leads where the long way does.

use super::support::{SECOND, ask, by_peer, from, limiter};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use proptest::prelude::*;
use tollgate::{Dialect, Limit, Verbosity};
use tollgate_tower::{ClientIp, GateLayer, RequestCost};

const DIALECTS: [Dialect; 6] = [
    Dialect::Draft11,
    Dialect::Draft07,
    Dialect::Draft06,
    Dialect::XTimestamp,
    Dialect::XSeconds,
    Dialect::Off,
];

/// What clients are answered, one after the other.
async fn answers(
    (limit, dialect, verbosity): (&Limit, Dialect, Verbosity),
    steps: &[(u8, u16)],
    long: bool,
) -> Vec<(StatusCode, HeaderMap)> {
    let (limiter, clock) = limiter(limit.clone());
    let mut builder = GateLayer::builder(limiter)
        .client_ip(ClientIp::peer())
        .cost(RequestCost::units(2))
        .headers(dialect)
        .verbosity(verbosity)
        .without_extension();
    if long {
        // Who watches sees an answer, which the short way does not make.
        builder = builder.observe(|_| {});
    }
    let layer = builder.build().unwrap();
    let mut answers = Vec::new();
    for (client, millis) in steps {
        clock.advance(std::time::Duration::from_millis((*millis).into()));
        let peers = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1"];
        let answer = ask(&layer, from(peers[usize::from(*client)])).await;
        answers.push((answer.status(), answer.headers().clone()));
    }
    answers
}

proptest! {
    #[test]
    fn the_short_way_answers_as_the_long_way_does(
        count in 2_u64..2000,
        burst in 2_u64..2000,
        dialect in prop::sample::select(&DIALECTS[..]),
        verbosity in prop::sample::select(vec![Verbosity::Full, Verbosity::Minimal, Verbosity::None]),
        steps in prop::collection::vec((0_u8..5, 0_u16..2000), 1..40),
    ) {
        let limits = [
            Limit::per_minute(count).burst(burst),
            Limit::fixed_window(count, std::time::Duration::from_secs(10)),
            Limit::sliding_log(count, std::time::Duration::from_secs(10)),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for limit in &limits {
            let style = (limit, dialect, verbosity);
            let short = runtime.block_on(answers(style, &steps, false));
            prop_assert_eq!(short, runtime.block_on(answers(style, &steps, true)));
        }
    }
}

#[tokio::test]
async fn the_short_way_finds_the_address_where_it_was_told_to() {
    let (limiter, _) = limiter(Limit::per_minute(1));
    let elsewhere = ClientIp::peer().peer_from(|extensions| extensions.get().copied());
    let layer = GateLayer::builder(limiter.clone()).client_ip(elsewhere).without_extension();
    let layer = layer.build().unwrap();
    for client in ["198.51.100.1:80", "198.51.100.2:80"] {
        let mut request = from("192.0.2.1");
        request.extensions_mut().insert(client.parse::<std::net::SocketAddr>().unwrap());
        assert_eq!(ask(&layer, request).await.status(), StatusCode::OK, "{client}");
    }
    let unknown = ask(&layer, from("192.0.2.1")).await.status();
    assert_eq!(unknown, StatusCode::INTERNAL_SERVER_ERROR, "not there, and nowhere else");
    assert!(limiter.status("198.51.100.2".parse::<std::net::IpAddr>().unwrap()).used() == 1);
}

#[tokio::test]
async fn what_the_service_has_told_itself_stays() {
    let (limiter, _) = limiter(Limit::per_minute(5));
    let layer = by_peer(&limiter).headers(Dialect::XSeconds).without_extension().build().unwrap();
    let own = |_| {
        let response = Response::builder().header("x-ratelimit-reset", "7").header("etag", "a");
        response.body(Full::from("served")).unwrap()
    };
    let answer = super::support::send(&layer, own, from("192.0.2.1")).await;
    let told: Vec<_> = answer.headers().get_all("x-ratelimit-reset").iter().collect();
    assert_eq!(told, ["7"]);
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "4");
    assert_eq!(answer.headers()["x-ratelimit-limit"], "5");
}

#[tokio::test]
async fn a_turn_of_a_leaky_queue_is_waited_for_on_the_short_way_too() {
    tokio::time::pause();
    let (limiter, _) = limiter(Limit::leaky_queue(1, SECOND).burst(2));
    let layer = by_peer(&limiter).headers(Dialect::Off).without_extension();
    let layer = layer.build().unwrap();
    let start = tokio::time::Instant::now();
    assert!(ask(&layer, from("192.0.2.1")).await.status().is_success());
    assert_eq!(start.elapsed().as_secs(), 0);
    assert!(ask(&layer, from("192.0.2.1")).await.status().is_success());
    assert_eq!(start.elapsed().as_secs(), 1);
}
