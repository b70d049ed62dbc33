//! The body of an answer: the service's own, or the layer's refusal.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::tab::Meter;

pin_project! {
    /// The body of an answer: the service's own, passed through, or the layer's refusal.
    #[must_use = "a body that is dropped is not sent"]
    pub struct GateBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProject]
    enum Kind<B> {
        Served { #[pin] body: B, meter: Option<Box<Meter>> },
        Own { bytes: Option<Box<Bytes>> },
    }
}

impl<B> GateBody<B> {
    #[inline]
    pub(crate) fn served(body: B, meter: Option<Box<Meter>>) -> GateBody<B> {
        GateBody { kind: Kind::Served { body, meter } }
    }

    /// [`served`](Self::served), with nothing to settle when it ends.
    #[inline]
    pub(crate) fn plain(body: B) -> GateBody<B> {
        GateBody::served(body, None)
    }

    pub(crate) fn own(bytes: Bytes) -> GateBody<B> {
        // Boxed, so that bodies that are passed through are no larger for it.
        let bytes = (!bytes.is_empty()).then(|| Box::new(bytes));
        GateBody { kind: Kind::Own { bytes } }
    }
}

/// An empty body, for layers that answer a request themselves, such as tower-http's `CorsLayer`.
impl<B> Default for GateBody<B> {
    fn default() -> GateBody<B> {
        GateBody::own(Bytes::new())
    }
}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProject::Own { bytes } => {
                Poll::Ready(bytes.take().map(|own| Ok(Frame::data(*own))))
            }
            KindProject::Served { body, meter } => {
                let frame = ready!(body.poll_frame(context));
                if let Some(open) = meter {
                    match &frame {
                        Some(Ok(frame)) => open.sent(frame.data_ref().map_or(0, Bytes::len)),
                        // An error ends a body too, with what was sent until then.
                        Some(Err(_)) | None => {
                            if let Some(meter) = meter.take() {
                                meter.ended();
                            }
                        }
                    }
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Own { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Own { bytes } => {
                let length = bytes.as_ref().map_or(0, |own| own.len());
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
        }
    }
}

impl<B> fmt::Debug for GateBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Served { .. } => "GateBody(served)",
            Kind::Own { .. } => "GateBody(own)",
        })
    }
}
