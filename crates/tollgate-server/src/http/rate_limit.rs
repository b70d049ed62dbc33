//! `POST /json`: Envoy's rate limit service as JSON, as the reference server has it.
//!
//! Messages are written as protobuf says: names in lowerCamelCase or as in the proto file, numbers
//! of 64 bits also as strings, what has its default left out.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use prost_types::value::Kind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::{Map, Value, json};

use super::body::{Object, parse};
use super::decision;
use super::problem::Problem;
use crate::app::App;
use crate::grpc::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::grpc::rate_limit_response::rate_limit::Unit;
use crate::grpc::rate_limit_response::{Code, DescriptorStatus};
use crate::grpc::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use crate::metrics::Transport;

const EXAMPLE: &str =
    r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<Object<Descriptor>>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    #[serde(default)]
    entries: Vec<Object<Pair>>,
    #[serde(default)]
    limit: Option<Object<Override>>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Whole>,
    #[serde(default, rename = "isNegativeHits", alias = "is_negative_hits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    #[serde(default, rename = "requestsPerUnit", alias = "requests_per_unit")]
    requests_per_unit: Whole,
    #[serde(default)]
    unit: UnitName,
}

/// A whole number, also as a string.
#[derive(Clone, Copy, Default)]
struct Whole(u64);

/// A unit by name or number.
#[derive(Clone, Copy, Default)]
struct UnitName(i32);

pub(super) async fn json(State(app): State<Arc<App>>, body: Body) -> Response {
    let answered = async {
        let body = app.body(body).await?;
        let asked: Asked = parse(&body, EXAMPLE)?;
        let bad = |detail| Problem::new(StatusCode::BAD_REQUEST, detail).example(EXAMPLE);
        let request = asked.request().map_err(bad)?;
        let answer = app.rate_limit(Transport::Http, &request).await;
        let answer = answer.map_err(|wrong| {
            let mut problem = bad(wrong.text);
            problem.over = wrong.over;
            problem
        })?;
        let mut response = decision::json(&written(&answer));
        if answer.overall_code() == Code::OverLimit {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        }
        Ok(response)
    };
    answered.await.unwrap_or_else(|problem: Problem| app.bad(&problem))
}

impl Asked {
    fn request(self) -> Result<RateLimitRequest, String> {
        let descriptors = self.descriptors.into_iter().map(|Object(of)| of.message());
        Ok(RateLimitRequest {
            domain: self.domain,
            descriptors: descriptors.collect::<Result<_, _>>()?,
            hits_addend: self.hits_addend.small("hitsAddend")?,
        })
    }
}

impl Descriptor {
    fn message(self) -> Result<RateLimitDescriptor, String> {
        let limit = self.limit.map(|Object(limit)| {
            let requests_per_unit = limit.requests_per_unit.small("requestsPerUnit")?;
            Ok::<_, String>(RateLimitOverride { requests_per_unit, unit: limit.unit.0 })
        });
        let entries = self.entries.into_iter();
        Ok(RateLimitDescriptor {
            entries: entries.map(|Object(Pair { key, value })| Entry { key, value }).collect(),
            limit: limit.transpose()?,
            hits_addend: self.hits_addend.map(|hits| hits.0),
            is_negative_hits: self.is_negative_hits,
        })
    }
}

impl Whole {
    fn small(self, name: &str) -> Result<u32, String> {
        let most = u32::MAX;
        u32::try_from(self.0).map_err(|_| format!("{name} is {}, must be at most {most}", self.0))
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                let number = text.parse().map_err(|_| {
                    E::invalid_value(serde::de::Unexpected::Str(super::problem::cut(text)), &self)
                });
                number.map(Whole)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitName, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = UnitName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<UnitName, E> {
                // A number that is no unit is refused with the rest of the request.
                Ok(UnitName(i32::try_from(number).unwrap_or(i32::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<UnitName, E> {
                let wrong = || {
                    E::invalid_value(serde::de::Unexpected::Str(super::problem::cut(text)), &self)
                };
                Unit::from_str_name(text).map(|unit| UnitName(unit.into())).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// An answer as protobuf has it in JSON.
fn written(answer: &RateLimitResponse) -> Value {
    let mut object = Map::new();
    object.insert("overallCode".to_owned(), answer.overall_code().as_str_name().into());
    let statuses = answer.statuses.iter().map(status).collect();
    object.insert("statuses".to_owned(), Value::Array(statuses));
    if !answer.response_headers_to_add.is_empty() {
        let headers = answer.response_headers_to_add.iter();
        let headers = headers.map(|header| json!({"key": header.key, "value": header.value}));
        object.insert("responseHeadersToAdd".to_owned(), headers.collect());
    }
    if !answer.raw_body.is_empty() {
        object.insert("rawBody".to_owned(), STANDARD.encode(&answer.raw_body).into());
    }
    if let Some(metadata) = &answer.dynamic_metadata {
        let fields = metadata.fields.iter();
        let fields = fields.map(|(name, value)| (name.clone(), plain(value.kind.as_ref())));
        object.insert("dynamicMetadata".to_owned(), Value::Object(fields.collect()));
    }
    Value::Object(object)
}

fn status(status: &DescriptorStatus) -> Value {
    let mut object = Map::new();
    object.insert("code".to_owned(), status.code().as_str_name().into());
    if let Some(limit) = &status.current_limit {
        let mut written = Map::new();
        if limit.requests_per_unit > 0 {
            written.insert("requestsPerUnit".to_owned(), limit.requests_per_unit.into());
        }
        if limit.unit() != Unit::Unknown {
            written.insert("unit".to_owned(), limit.unit().as_str_name().into());
        }
        if !limit.name.is_empty() {
            written.insert("name".to_owned(), limit.name.clone().into());
        }
        object.insert("currentLimit".to_owned(), Value::Object(written));
    }
    if status.limit_remaining > 0 {
        object.insert("limitRemaining".to_owned(), status.limit_remaining.into());
    }
    if let Some(reset) = &status.duration_until_reset {
        object.insert("durationUntilReset".to_owned(), format!("{}s", reset.seconds).into());
    }
    Value::Object(object)
}

/// What the server writes of metadata: texts and numbers.
fn plain(kind: Option<&Kind>) -> Value {
    match kind {
        Some(Kind::StringValue(text)) => text.clone().into(),
        Some(Kind::NumberValue(number)) => (*number).into(),
        Some(Kind::BoolValue(is_so)) => (*is_so).into(),
        _ => Value::Null,
    }
}
