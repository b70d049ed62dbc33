//! What is asked: the same request in three protocols, each time with the key of its number.

use std::fmt::Write as _;

use prost::Message;
use tollgate_lab::traffic::Draws;
use tollgate_server::rls::{Entry, RateLimitDescriptor, RateLimitRequest};

use super::target::Protocol;

/// What stands for the key in an attribute's value.
pub(super) const KEY: &str = "{key}";

/// An attribute of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) value: String,
}

/// Whether to take what is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    Check,
    /// Takes nothing.
    Peek,
}

/// All requests of a run.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) keys: Draws,
    pub(super) attributes: Vec<Attribute>,
    pub(super) cost: u32,
    /// Of Envoy's requests.
    pub(super) domain: String,
}

impl Questions {
    /// The bytes of a request: a body, a message of gRPC, a command.
    pub(super) fn write(&self, protocol: Protocol, number: u64, intent: Intent) -> Vec<u8> {
        let key = self.keys.client_of(number).to_string();
        let values =
            self.attributes.iter().map(|each| (each.name.as_str(), each.value.replace(KEY, &key)));
        match protocol {
            Protocol::Http => self.json(values),
            Protocol::Rls => self.message(values, intent),
            Protocol::Resp => self.command(values, intent),
        }
    }

    fn json<'a>(&self, values: impl Iterator<Item = (&'a str, String)>) -> Vec<u8> {
        let mut body = String::from("{\"attributes\":{");
        for (at, (name, value)) in values.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let (name, value) = (quoted(name), quoted(&value));
            let _ = write!(body, "{comma}{name}:{value}");
        }
        let _ = write!(body, "}},\"cost\":{}}}", self.cost);
        body.into_bytes()
    }

    /// A message in the frame of gRPC: not compressed, and how long it is.
    fn message<'a>(
        &self,
        values: impl Iterator<Item = (&'a str, String)>,
        intent: Intent,
    ) -> Vec<u8> {
        let entries = values.map(|(key, value)| Entry { key: key.to_owned(), value }).collect();
        let look = (intent == Intent::Peek).then_some(0);
        let descriptor =
            RateLimitDescriptor { entries, hits_addend: look, ..RateLimitDescriptor::default() };
        let request = RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![descriptor],
            hits_addend: self.cost,
        };
        let mut frame = vec![0];
        let length = u32::try_from(request.encoded_len()).unwrap_or(u32::MAX);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&request.encode_to_vec());
        frame
    }

    fn command<'a>(
        &self,
        values: impl Iterator<Item = (&'a str, String)>,
        intent: Intent,
    ) -> Vec<u8> {
        let name = if intent == Intent::Peek { "TG.PEEK" } else { "TG.CHECK" };
        let mut words = vec![name.to_owned()];
        // Without it, a first attribute of that name would be the cost.
        let cost_first =
            self.attributes.first().is_some_and(|each| each.name.eq_ignore_ascii_case("cost"));
        if self.cost != 1 || cost_first {
            words.extend(["COST".to_owned(), self.cost.to_string()]);
        }
        words.extend(values.flat_map(|(name, value)| [name.to_owned(), value]));
        command(&words)
    }
}

/// A command as clients of Redis send it.
pub(super) fn command(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(bytes, "${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions(cost: u32, attributes: &[(&str, &str)]) -> Questions {
        let attributes = attributes.iter().map(|(name, value)| Attribute {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        Questions {
            keys: Draws::evenly(1, 1),
            attributes: attributes.collect(),
            cost,
            domain: "edge".to_owned(),
        }
    }

    fn text(questions: &Questions, protocol: Protocol, intent: Intent) -> String {
        String::from_utf8(questions.write(protocol, 7, intent)).expect("it is text")
    }

    #[test]
    fn the_same_question_is_asked_in_every_protocol() {
        let asked = questions(3, &[("user", "u-{key}"), ("say", "\"hi\"")]);
        let json = text(&asked, Protocol::Http, Intent::Check);
        assert_eq!(json, r#"{"attributes":{"user":"u-0","say":"\"hi\""},"cost":3}"#);
        let command = text(&asked, Protocol::Resp, Intent::Check);
        let expected = "*7\r\n$8\r\nTG.CHECK\r\n$4\r\nCOST\r\n$1\r\n3\r\n$4\r\nuser\r\n$3\r\nu-0\r\n$3\r\nsay\r\n$4\r\n\"hi\"\r\n";
        assert_eq!(command, expected);
        let message = asked.write(Protocol::Rls, 7, Intent::Check);
        let length = usize::from(message[4]);
        assert_eq!((message[0], length), (0, message.len() - 5));
        let message = RateLimitRequest::decode(&message[5..]).expect("a message");
        assert_eq!((message.domain.as_str(), message.hits_addend), ("edge", 3));
        assert_eq!(message.descriptors[0].entries[0].value, "u-0");
        assert_eq!(message.descriptors[0].hits_addend, None);
    }

    #[test]
    fn a_look_takes_nothing() {
        let asked = questions(1, &[("user", "{key}")]);
        let command = text(&asked, Protocol::Resp, Intent::Peek);
        assert_eq!(command, "*3\r\n$7\r\nTG.PEEK\r\n$4\r\nuser\r\n$1\r\n0\r\n");
        let message = asked.write(Protocol::Rls, 7, Intent::Peek);
        let message = RateLimitRequest::decode(&message[5..]).expect("a message");
        assert_eq!(message.descriptors[0].hits_addend, Some(0));
    }

    #[test]
    fn an_attribute_called_cost_is_not_the_cost() {
        let command = text(&questions(1, &[("cost", "9")]), Protocol::Resp, Intent::Check);
        assert!(command.starts_with("*5\r\n$8\r\nTG.CHECK\r\n$4\r\nCOST\r\n$1\r\n1\r\n$4\r\ncost"));
    }
}
