//! What can be wrong with a limit, said so that the reader knows what to write instead.

use std::error::Error;
use std::fmt;

/// Why a limit was refused: what is wrong and what would be right.
///
/// ```
/// use tollgate::Limit;
///
/// let error = Limit::per_second(0).validate().unwrap_err();
/// assert_eq!(error.to_string(), "count is 0, must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError(String);

impl LimitError {
    pub(crate) fn new(message: impl Into<String>) -> LimitError {
        LimitError(message.into())
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LimitError {}
