//! The client's address, under headers that clients make up.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use tollgate::{AddressPrefix, Limit, Limiter};
use tollgate_tower::{ClientIp, GateLayer, LayerError};

use super::support::{by_peer, from, limiter, status, with};

const PROXY: &str = "10.0.0.1";
const CLIENT: &str = "203.0.113.9";

fn xff() -> ClientIp {
    ClientIp::x_forwarded_for(["10.0.0.0/8", "2001:db8:ffff::/48"]).unwrap()
}

fn forwarded() -> ClientIp {
    ClientIp::forwarded(["10.0.0.0/8", "2001:db8:ffff::/48"]).unwrap()
}

fn of(client_ip: &ClientIp, peer: &str, name: &'static str, lines: &[&[u8]]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    client_ip.of(peer.parse().unwrap(), &headers).to_string()
}

fn by_xff(peer: &str, lines: &[&str]) -> String {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    of(&xff(), peer, "x-forwarded-for", &lines)
}

fn by_forwarded(peer: &str, lines: &[&str]) -> String {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    of(&forwarded(), peer, "forwarded", &lines)
}

#[test]
fn without_trusted_proxies_headers_say_nothing() {
    let claimed: &[&[u8]] = &[b"1.2.3.4"];
    assert_eq!(of(&ClientIp::peer(), CLIENT, "x-forwarded-for", claimed), CLIENT);
    assert_eq!(of(&ClientIp::peer(), PROXY, "forwarded", &[b"for=1.2.3.4"]), PROXY);
}

#[test]
fn a_peer_that_is_not_trusted_is_the_client_whatever_it_says() {
    assert_eq!(by_xff(CLIENT, &["1.2.3.4"]), CLIENT);
    assert_eq!(by_forwarded(CLIENT, &["for=1.2.3.4"]), CLIENT);
}

#[test]
fn the_client_is_the_rightmost_address_that_is_not_a_trusted_proxy() {
    assert_eq!(by_xff(PROXY, &[CLIENT]), CLIENT);
    assert_eq!(by_xff(PROXY, &["1.2.3.4, 203.0.113.9"]), CLIENT, "the left is made up");
    assert_eq!(by_xff(PROXY, &["1.2.3.4, 203.0.113.9, 10.9.9.9"]), CLIENT, "two proxies");
    assert_eq!(by_xff(PROXY, &["1.2.3.4", "203.0.113.9 ,10.9.9.9"]), CLIENT, "two lines");
    assert_eq!(by_xff(PROXY, &["10.1.1.1, 10.2.2.2"]), "10.1.1.1", "all of them trusted");
    assert_eq!(by_xff(PROXY, &[]), PROXY);
    assert_eq!(by_forwarded(PROXY, &["for=1.2.3.4, for=203.0.113.9;proto=https"]), CLIENT);
    let quoted = r#"for=1.2.3.4, for="203.0.113.9:4711";by=10.0.0.1, For="[2001:db8:ffff::7]:80""#;
    assert_eq!(by_forwarded(PROXY, &[quoted]), CLIENT);
}

#[test]
fn only_the_header_that_was_named_is_believed() {
    assert_eq!(of(&xff(), PROXY, "forwarded", &[b"for=1.2.3.4"]), PROXY);
    assert_eq!(of(&forwarded(), PROXY, "x-forwarded-for", &[b"1.2.3.4"]), PROXY);
}

#[test]
fn addresses_come_in_every_shape() {
    for written in [CLIENT, "203.0.113.9:80", "::ffff:203.0.113.9", "[::ffff:203.0.113.9]:80"] {
        assert_eq!(by_xff(PROXY, &[written]), CLIENT, "{written}");
    }
    for written in ["2001:db8:1:2:3:4:5:6", "[2001:db8:1:2:3:4:5:6]", "[2001:db8:1:2::9]:443"] {
        let address =
            if written.contains('9') { "2001:db8:1:2::9" } else { "2001:db8:1:2:3:4:5:6" };
        assert_eq!(by_xff(PROXY, &[written]), address, "{written}");
    }
    assert_eq!(by_xff("::ffff:10.0.0.1", &[CLIENT]), CLIENT, "the proxy in IPv6 clothes");
}

#[tokio::test]
async fn limiter_counts_the_part_of_an_address_that_the_layer_says() {
    for (prefix, other, alike) in [
        (None, "2001:db8:0:1::1", "2001:db8::2"),
        (Some(AddressPrefix::new(24, 48)), "2001:db8:1::1", "2001:db8:0:ff::2"),
        (Some(AddressPrefix::WHOLE), "2001:db8::2", "2001:db8::1"),
        (Some(AddressPrefix::new(24, 48)), "203.0.114.9", "203.0.113.8"),
        (None, "203.0.113.8", "203.0.113.9"),
    ] {
        let first = if alike.contains(':') { "2001:db8::1" } else { "203.0.113.9" };
        for is_observed in [false, true] {
            let (limiter, _) = limiter(Limit::per_minute(1));
            let mut builder = by_peer(&limiter).without_extension();
            if let Some(prefix) = prefix {
                builder = builder.address_prefix(prefix);
            }
            if is_observed {
                builder = builder.observe(|_| {});
            }
            let layer = builder.build().unwrap();
            assert_eq!(status(&layer, from(first)).await, StatusCode::OK);
            assert_eq!(status(&layer, from(alike)).await, StatusCode::TOO_MANY_REQUESTS, "{alike}");
            assert_eq!(status(&layer, from(other)).await, StatusCode::OK, "{other}");
        }
    }
}

#[test]
fn what_cannot_be_understood_stops_at_the_last_proxy_that_is_trusted() {
    let wrong = [
        "unknown",
        "_hidden",
        "",
        "1.2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "999.1.1.1",
        "1.2.3.4:99999",
        "fe80::1%eth0",
        "[fe80::1%2]:80",
        "[::1",
        "::1]",
        "1.2.3.4 5.6.7.8",
        "ana",
        "\"1.2.3.4\"",
    ];
    for wrong in wrong {
        assert_eq!(by_xff(PROXY, &[wrong]), PROXY, "{wrong:?}");
        let behind = format!("1.2.3.4, {wrong}, 10.7.7.7");
        assert_eq!(by_xff(PROXY, &[&behind]), "10.7.7.7", "{wrong:?}");
    }
    let wrong = [
        "for=unknown",
        "for=_hidden",
        "",
        "proto=https",
        "for",
        "for=2001:db8::1",
        "for=[2001:db8::1]",
        "for=\"2001:db8::1\"",
        "for=1.2.3.4;for=5.6.7.8",
        "for=\"1.2.3.4",
        "for=1.2.3.4\"",
        "for=\"\\1.2.3.4\"",
        "x=\"a;for=1.2.3.4\"",
        "for=1.2.3.4;x",
    ];
    for wrong in wrong {
        assert_eq!(by_forwarded(PROXY, &[wrong]), PROXY, "{wrong:?}");
    }
    assert_eq!(of(&xff(), PROXY, "x-forwarded-for", &[b"\xff\xfe, 1.2.3.4\xff"]), PROXY);
}

#[test]
fn quotes_on_the_left_do_not_change_what_is_on_the_right() {
    for left in ["for=\"evil", "for=\"", "\"\"\"", "for=\"a\\\"", ",,,\""] {
        let line = format!("{left}, for=203.0.113.9");
        assert_eq!(by_forwarded(PROXY, &[&line]), CLIENT, "{left:?}");
    }
}

#[test]
fn a_gigantic_header_costs_little_and_gives_no_key_of_the_clients_choice() {
    let many = vec!["10.1.1.1"; 100_000].join(", ");
    assert_eq!(by_xff(PROXY, &[&format!("1.2.3.4, {many}")]), "10.1.1.1");
    let lines = vec!["10.1.1.1"; 20_000];
    let all: Vec<&str> = ["1.2.3.4"].into_iter().chain(lines).collect();
    assert_eq!(by_xff(PROXY, &all), "10.1.1.1");
    let long = "x".repeat(1_000_000);
    assert_eq!(by_xff(PROXY, &[&long]), PROXY);
    assert_eq!(by_xff(PROXY, &[&format!("{long}, 203.0.113.9")]), CLIENT);
    assert_eq!(by_forwarded(PROXY, &[&format!("for=\"{long}\", for=203.0.113.9")]), CLIENT);
}

#[test]
fn a_network_that_is_none_is_an_error_that_names_it() {
    let error = ClientIp::x_forwarded_for(["10.0.0.0/33"]).unwrap_err();
    assert_eq!(error, LayerError::Network("10.0.0.0/33".into()));
    assert!(ClientIp::forwarded(["192.0.2.7"]).is_ok(), "an address is a network of one");
}

#[test]
fn who_trusts_everybody_is_told_that_anybody_could_be_anybody() {
    for everybody in ["0.0.0.0/0", "::/0", "::ffff:0:0/96"] {
        let error = LayerError::TrustsEverybody(everybody.into());
        assert_eq!(ClientIp::x_forwarded_for(["10.0.0.0/8", everybody]).unwrap_err(), error);
        assert_eq!(ClientIp::forwarded([everybody]).unwrap_err(), error);
    }
}

#[test]
fn a_network_of_ipv4_in_ipv6_clothes_is_the_ipv4_network() {
    let mapped = ClientIp::x_forwarded_for(["::ffff:10.0.0.0/104"]).unwrap();
    assert_eq!(of(&mapped, PROXY, "x-forwarded-for", &[b"1.2.3.4, 203.0.113.9"]), CLIENT);
    assert_eq!(of(&mapped, "11.0.0.1", "x-forwarded-for", &[b"203.0.113.9"]), "11.0.0.1");
}

#[tokio::test]
async fn a_client_that_invents_addresses_is_still_one_client() {
    for short in [false, true] {
        let (limiter, _) = limiter(Limit::per_hour(1));
        let layer = GateLayer::builder(limiter.clone()).client_ip(xff());
        let layer = if short { layer.without_extension() } else { layer }.build().unwrap();
        invents_addresses(&limiter, &layer).await;
    }
}

async fn invents_addresses(limiter: &Limiter, layer: &GateLayer) {
    let invented = |number: u32| {
        let header = format!("198.51.100.{number}, 203.0.113.9");
        with(from(PROXY), "x-forwarded-for", &header)
    };
    assert_eq!(status(layer, invented(0)).await, StatusCode::OK);
    for number in 1..200 {
        assert_eq!(status(layer, invented(number)).await, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(limiter.store().len(), 1);
}

proptest! {
    #[test]
    fn whatever_a_client_writes_it_never_chooses_its_key(
        peer: [u8; 4],
        lines in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b','), Just(b'"'), Just(b'='), Just(b';'), 0x20..0x7f_u8, 0x80..=0xff_u8], 0..200), 0..5),
    ) {
        let peer = IpAddr::from(peer);
        prop_assume!(!peer.to_string().starts_with("10."));
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        // Directly, it is its own address; through a proxy, what the proxy adds.
        for (client_ip, name) in [(xff(), "x-forwarded-for"), (forwarded(), "forwarded")] {
            prop_assert_eq!(of(&client_ip, &peer.to_string(), name, &lines), peer.to_string());
            let added = if name == "forwarded" { format!("for={peer}") } else { peer.to_string() };
            let mut own_line = lines.clone();
            own_line.push(added.as_bytes());
            prop_assert_eq!(of(&client_ip, PROXY, name, &own_line), peer.to_string());
            let (last, before) = lines.split_last().map_or((&b""[..], &[][..]), |(last, before)| (*last, before));
            let same_line = [last, &b", "[..], added.as_bytes()].concat();
            let appended = [before, &[same_line.as_slice()]].concat();
            prop_assert_eq!(of(&client_ip, PROXY, name, &appended), peer.to_string());
        }
    }
}
