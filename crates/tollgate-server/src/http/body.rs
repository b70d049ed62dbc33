//! Bodies of requests: bounded, and refused with what is wrong and what would be right.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokio::time::sleep;
use tollgate::{Limit, Request};

use super::problem::{Problem, cut};
use crate::app::App;
use crate::bounds::{Bound, Bounds, MAX_LIMITS, MAX_NAME, MOST_ATTRIBUTES, MOST_BATCH, SMALL_BODY};

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

/// With whether there are more than are ever read.
#[derive(Debug)]
pub(super) struct Batch<'a>(Vec<Asked<'a>>, bool);

#[derive(Debug)]
struct Limits(Vec<Limit>);

/// With whether there are more than are ever read.
#[derive(Debug, Default)]
pub(crate) struct Attributes<'a>(Vec<(Text<'a>, Text<'a>)>, bool);

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

    /// Where they go over a bound.
    pub(crate) fn check(&self, bounds: &Bounds) -> Result<(), Problem> {
        let most = bounds.attributes;
        if self.1 || self.0.len() > most {
            return Err(Problem::over(Bound::Attributes, format!("more than {most} attributes")));
        }
        let over = |what: String| Err(Problem::over(Bound::KeyLength, what));
        for (name, value) in self.iter() {
            if name.len() > MAX_NAME {
                return over(format!("an attribute's name is longer than {MAX_NAME} bytes"));
            }
            if value.len() > bounds.key_length {
                let most = bounds.key_length;
                return over(format!("attribute {name:?} is longer than {most} bytes"));
            }
        }
        Ok(())
    }
}

impl<'a> Batch<'a> {
    /// The requests, unless they are too many.
    pub(super) fn within(self, bounds: &Bounds) -> Result<Vec<Asked<'a>>, Problem> {
        if self.1 || self.0.len() > bounds.batch {
            let detail = format!("more than {} requests, send several batches", bounds.batch);
            return Err(Problem::over(Bound::Batch, detail));
        }
        Ok(self.0)
    }
}

impl Asked<'_> {
    /// The bound that the request exceeds, if any.
    pub(super) fn check(&self, bounds: &Bounds) -> Result<(), Problem> {
        let most = bounds.key_length;
        if self.key.as_ref().is_some_and(|key| key.0.len() > most) {
            let detail = format!("\"key\" is longer than {most} bytes");
            return Err(Problem::over(Bound::KeyLength, detail));
        }
        self.attributes.check(bounds)
    }

    /// How many bytes of it have to be decided on, about.
    pub(super) fn size(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.0.len());
        self.attributes.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
            + key
            + 16
    }

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

impl App {
    /// The whole body, within the bounds of the server.
    pub(super) async fn body<B>(&self, body: B) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        self.long_body(body, self.settings.bounds.body).await
    }

    /// The whole body, if it has no more than `most` bytes and does not take too long.
    pub(crate) async fn long_body<B>(&self, body: B, most: usize) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        self.body_until(body, most, sleep(self.settings.bounds.body_time)).await
    }

    /// The whole body, if it has no more than `most` bytes and is there before `too_late`.
    pub(super) async fn body_until<B>(
        &self,
        body: B,
        most: usize,
        too_late: impl Future<Output = ()>,
    ) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let size = body.size_hint();
        // What says that it is too long is not waited for.
        if size.lower() > u64::try_from(most).unwrap_or(u64::MAX) {
            return Err(too_long(most));
        }
        let said = size.exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(most);
        tokio::select! {
            biased;
            collected = self.collected(body, (said, most)) => collected,
            () = too_late => {
                let within = self.settings.bounds.body_time;
                let detail = format!("the body took longer than {within:?}");
                Err(Problem::over(Bound::BodyTime, detail))
            }
        }
    }

    /// The body, which says that it has so many bytes; room is asked for once it is no longer short.
    async fn collected<B>(
        &self,
        mut body: B,
        (said, most): (usize, usize),
    ) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (mut first, mut whole, mut room) = (Bytes::new(), Vec::new(), None);
        while let Some(frame) = body.frame().await {
            let early =
                |_| Problem::new(StatusCode::BAD_REQUEST, "the body ended before it was whole");
            let Ok(data) = frame.map_err(early)?.into_data() else { continue };
            let length = first.len().max(whole.len()).saturating_add(data.len());
            if length > most {
                return Err(too_long(most));
            }
            if length > SMALL_BODY && room.is_none() {
                room = Some(self.room_for(said)?);
            }
            // Nearly all come in one piece, which is not copied.
            if first.is_empty() && whole.is_empty() {
                first = data;
                continue;
            }
            if whole.is_empty() {
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&data);
        }
        Ok(if whole.is_empty() { first } else { Bytes::from(whole) })
    }

    fn room_for(&self, bytes: usize) -> Result<tokio::sync::SemaphorePermit<'_>, Problem> {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        self.bodies.try_acquire_many(kib).map_err(|_| {
            Problem::over(Bound::Bodies, "too many long bodies are on their way, try again later")
        })
    }
}

fn too_long(most: usize) -> Problem {
    Problem::over(Bound::Body, format!("the body is too long, it may have {most} bytes"))
}

/// A body as an object of JSON; `example` is one that would be right.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    example: &'static str,
) -> Result<T, Problem> {
    let read = serde_json::from_slice::<Object<T>>(body);
    read.map(|Object(read)| read).map_err(|error| {
        let detail = match body {
            b"" => "the body is empty, it must be JSON".to_owned(),
            _ => format!("the body is wrong: {}", in_plain_words(&error)),
        };
        Problem::new(StatusCode::BAD_REQUEST, detail).example(example)
    })
}

/// What is wrong without the names that numbers have in Rust.
fn in_plain_words(error: &serde_json::Error) -> String {
    let whole = |most: u64| format!("expected a whole number from 0 to {most}");
    let text = error.to_string();
    text.replace("expected u64", &whole(u64::MAX)).replace("expected u32", &whole(u32::MAX.into()))
}

/// What is read from an object alone. By itself, what is derived takes an array as well, by the
/// places of its values, and a client that meant something else would be charged for it.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, such as {\"name\": …}")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
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
                    if read.len() == MOST_ATTRIBUTES {
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                        return Ok(Attributes(read, true));
                    }
                    if read.iter().any(|(known, _)| *known == name) {
                        let message = format!("attribute {:?} is there twice", cut(&name.0));
                        return Err(M::Error::custom(message));
                    }
                    read.push((name, value));
                }
                Ok(Attributes(read, false))
            }
        }

        deserializer.deserialize_map(Reader)
    }
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
                while let Some(Object(asked)) = seq.next_element()? {
                    if read.len() == MOST_BATCH {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(Batch(read, true));
                    }
                    read.push(asked);
                }
                Ok(Batch(read, false))
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}
