//! Messages as bytes, in room as short as they are.

use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
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
    type Decoder = Requests;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(ROOM, SEND))
    }

    fn decoder(&mut self) -> Self::Decoder {
        Requests(ProstDecoder::new(BufferSettings::new(ROOM, SEND)))
    }
}

/// Reads requests. What is none is the client's fault, and no error of this server's, as tonic has it
/// by itself.
#[derive(Debug)]
pub(super) struct Requests(ProstDecoder<RateLimitRequest>);

impl Decoder for Requests {
    type Item = RateLimitRequest;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<RateLimitRequest>, Status> {
        self.0.decode(bytes).map_err(|status| {
            let why = status.message();
            Status::invalid_argument(format!(
                "{why}, must be a RateLimitRequest of envoy.service.ratelimit.v3"
            ))
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
