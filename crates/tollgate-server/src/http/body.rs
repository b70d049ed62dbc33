//! Bodies of requests: bounded, and refused with what is wrong and what would be right.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tollgate::{Limit, Request};

use super::problem::Problem;
use crate::bounds::{BODY_TIMEOUT, MAX_ATTRIBUTES, MAX_BATCH, MAX_LIMITS, MAX_NAME, MAX_VALUE};

/// What a body says of one request.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked<'a> {
    #[serde(borrow, default)]
    attributes: Attributes<'a>,
    pub(super) cost: Option<u64>,
    /// Who is counted by `limits`.
    #[serde(borrow, default)]
    key: Option<Text<'a>>,
    /// Limits of the request's own, in place of the policy's.
    #[serde(default)]
    limits: Option<Limits>,
    /// Only of reservations.
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
}

/// What a body says of several.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedMany<'a> {
    #[serde(borrow)]
    pub(super) requests: Batch<'a>,
}

#[derive(Debug)]
pub(super) struct Batch<'a>(pub(super) Vec<Asked<'a>>);

#[derive(Debug)]
struct Limits(Vec<Limit>);

#[derive(Debug, Default)]
pub(crate) struct Attributes<'a>(Vec<(Text<'a>, Text<'a>)>);

/// A text that is copied only where it has escapes.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A key and limits that a request brings with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    pub(super) key: &'a str,
    pub(super) limits: &'a [Limit],
    pub(super) cost: u64,
}

impl Attributes<'_> {
    /// Names and values, as they were given.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&*name.0, &*value.0))
    }
}

impl Asked<'_> {
    /// The limits that the request brings, if it does.
    pub(super) fn own(&self) -> Result<Option<Own<'_>>, String> {
        let (key, limits) = match (&self.key, &self.limits) {
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return Err("\"key\" says whom \"limits\" count, and there are none".to_owned());
            }
            (None, Some(_)) => return Err("\"limits\" need a \"key\" to count".to_owned()),
            (Some(key), Some(limits)) => (&*key.0, &*limits.0),
        };
        if !self.attributes.0.is_empty() {
            let message = "\"limits\" are in place of the policy, which \"attributes\" are for: \
                           leave one of them out";
            return Err(message.to_owned());
        }
        if key.len() > MAX_VALUE {
            return Err(format!("\"key\" is longer than {MAX_VALUE} bytes"));
        }
        Ok(Some(Own { key, limits, cost: self.cost.unwrap_or(1) }))
    }

    pub(super) fn request(&self) -> Request<'_> {
        let request: Request<'_> = self.attributes.iter().collect();
        match self.cost {
            Some(cost) => request.cost(cost),
            None => request,
        }
    }
}

/// The whole body, if it has no more than `most` bytes and does not take too long.
pub(crate) async fn read(body: Body, most: usize) -> Result<Bytes, Problem> {
    // What says that it is too long is not waited for.
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(too_long(most));
    }
    let collected = Limited::new(body, most).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collected).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_long(most)),
        Ok(Err(_)) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, "the body ended before it was whole"))
        }
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body took longer than {} seconds", BODY_TIMEOUT.as_secs()),
        )),
    }
}

fn too_long(most: usize) -> Problem {
    let detail = format!("the body is too long, it may have {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// A body as JSON; `example` is one that would be right.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    example: &'static str,
) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let detail = match body {
            b"" => "the body is empty, it must be JSON".to_owned(),
            _ => format!("the body is wrong: {error}"),
        };
        Problem::new(StatusCode::BAD_REQUEST, detail).example(example)
    })
}

impl<'de: 'a, 'a> Deserialize<'de> for Attributes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Attributes<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings, such as {\"user\": \"42\"}")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut read: Vec<(Text<'de>, Text<'de>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    if read.len() == MAX_ATTRIBUTES {
                        let message = format!("more than {MAX_ATTRIBUTES} attributes");
                        return Err(M::Error::custom(message));
                    }
                    short(&name, &value).map_err(M::Error::custom)?;
                    if read.iter().any(|(known, _)| *known == name) {
                        let message = format!("attribute {:?} is there twice", name.0);
                        return Err(M::Error::custom(message));
                    }
                    read.push((name, value));
                }
                Ok(Attributes(read))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

fn short(name: &Text<'_>, value: &Text<'_>) -> Result<(), String> {
    if name.0.len() > MAX_NAME {
        return Err(format!("an attribute's name is longer than {MAX_NAME} bytes"));
    }
    if value.0.len() > MAX_VALUE {
        return Err(format!("attribute {:?} is longer than {MAX_VALUE} bytes", name.0));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Limits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of limits, such as [\"10/s burst 5\"]")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
                let mut read = Vec::new();
                while let Some(limit) = seq.next_element()? {
                    if read.len() == MAX_LIMITS {
                        return Err(S::Error::custom(format!("more than {MAX_LIMITS} limits")));
                    }
                    read.push(limit);
                }
                if read.is_empty() {
                    return Err(S::Error::custom("no limits, leave \"limits\" out"));
                }
                Ok(Limits(read))
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of requests")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
                let mut read = Vec::new();
                while let Some(asked) = seq.next_element()? {
                    if read.len() == MAX_BATCH {
                        let message =
                            format!("more than {MAX_BATCH} requests, send several batches");
                        return Err(S::Error::custom(message));
                    }
                    read.push(asked);
                }
                Ok(Batch(read))
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}
