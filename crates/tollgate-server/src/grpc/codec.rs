//! Messages as bytes, in room as short as they are.

use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::{RateLimitRequest, RateLimitResponse};

/// As much as nearly all messages take. tonic's own is eight times that for either way, for every
/// call, which costs a call more than deciding it does.
const ROOM: usize = 1 << 10;

/// When what is written so far is sent, which a single message never comes to.
const SEND: usize = 32 << 10;

/// Messages of the rate limit service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages;

impl Codec for Messages {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = ProstEncoder<RateLimitResponse>;
    type Decoder = ProstDecoder<RateLimitRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(ROOM, SEND))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(ROOM, SEND))
    }
}
