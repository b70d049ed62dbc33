//! What can be wrong with a layer.

use std::fmt;

/// What is wrong with a layer, found when it is built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerError {
    /// A text that is no network.
    Network(String),
    /// A network of proxies that everybody is in.
    TrustsEverybody(String),
    /// A text that is no name of a header.
    HeaderName(String),
    /// Two attributes of one name.
    Repeated(String),
    /// A rule or list asks for an attribute that the layer does not give.
    NotGiven {
        /// The rule or list.
        rule: String,
        /// The attribute.
        attribute: String,
    },
    /// A limiter, and nothing says who is counted.
    NoKey,
    /// A limiter that waits cannot settle by the response.
    WaitsAndSettles,
    /// A cost or a price of nothing.
    NoCost,
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerError::Network(text) => {
                write!(f, "{text:?} is no network, write for example \"10.0.0.0/8\"")
            }
            LayerError::TrustsEverybody(text) => write!(
                f,
                "{text:?} trusts everybody, so that any client could say it is any other: \
                 write the networks of your proxies, for example \"10.0.0.0/8\""
            ),
            LayerError::HeaderName(text) => {
                write!(f, "{text:?} is no name of a header, write for example \"x-api-key\"")
            }
            LayerError::Repeated(name) => {
                write!(f, "a second attribute {name:?}, every attribute needs a name of its own")
            }
            LayerError::NotGiven { rule, attribute } => write!(
                f,
                "{rule:?} asks for the attribute {attribute:?}, which the layer does not give: it would never apply; \
                 add .attribute({attribute:?}, …), or .may_lack({attribute:?}) if that is meant"
            ),
            LayerError::NoKey => f.write_str(
                "nothing says who the limiter counts: add .client_ip(…) or .attribute(…), \
                 or .everybody() if all requests are to share the limit",
            ),
            LayerError::WaitsAndSettles => f.write_str(
                "a limiter that waits cannot settle by the response, nor stand under another layer: \
                 use a Gate, or leave .wait(…) out, or .settle(…), .if_cancelled(…) and .stacked()",
            ),
            LayerError::NoCost => f.write_str("a cost of 0, must be at least 1"),
        }
    }
}

impl std::error::Error for LayerError {}
