//! A tab: units taken for a request that is being served, settled when it is known how.

use http::{HeaderMap, Response, StatusCode};

use crate::door::Held;
use crate::refuse::Refused;
use crate::settle::{AnswerHead, Bill, By, Usage};

/// Units taken for a request that is being served. However that ends, they are settled once: a tab
/// that is dropped settles as it was told to.
pub(crate) struct Tab {
    held: Option<Held>,
    by: Option<By>,
    usage: Option<Usage>,
    /// Where the client goes away before there is an answer.
    if_dropped: Bill,
}

impl Tab {
    pub(crate) fn new(held: Held, by: Option<By>, usage: Option<Usage>, if_dropped: Bill) -> Tab {
        Tab { held: Some(held), by, usage, if_dropped }
    }

    /// The request waits for its turn: until then it has cost nobody anything.
    pub(crate) fn waits(&mut self) {
        self.if_dropped = Bill::Nothing;
    }

    /// Its turn has come.
    pub(crate) fn goes_ahead(&mut self, if_dropped: Bill) {
        self.if_dropped = if_dropped;
    }

    /// The service has answered: settles, or goes on to when the body has been sent.
    pub(crate) fn answered<B>(mut self: Box<Tab>, answer: &Response<B>) -> Option<Box<Meter>> {
        if answer.extensions().get::<Refused>().is_some() {
            // A layer beneath has refused the request: none is charged.
            self.settle(Bill::Nothing);
            return None;
        }
        match self.by.take() {
            None => self.settle(Bill::Estimate),
            Some(By::Response(bill)) => {
                self.if_dropped = Bill::Estimate;
                let head = AnswerHead::new(answer.status(), answer.headers(), answer.extensions());
                let bill = bill(&head);
                self.settle(bill);
            }
            Some(By::Bytes { per_unit }) => {
                self.if_dropped = Bill::Units(0);
                let bytes = Some(per_unit.max(1));
                return Some(Box::new(Meter { tab: self, bytes, sent: 0 }));
            }
            Some(By::Handler) => {
                self.if_dropped = Bill::Estimate;
                return Some(Box::new(Meter { tab: self, bytes: None, sent: 0 }));
            }
        }
        None
    }

    /// The service has failed without an answer.
    pub(crate) fn failed(mut self: Box<Tab>) {
        let bill = match self.by.take() {
            Some(By::Response(bill)) => {
                let (headers, extensions) = (HeaderMap::new(), http::Extensions::new());
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                bill(&AnswerHead::new(status, &headers, &extensions))
            }
            Some(By::Handler) => self.said().unwrap_or(Bill::Estimate),
            Some(By::Bytes { .. }) => Bill::Nothing,
            None => Bill::Estimate,
        };
        self.settle(bill);
    }

    fn said(&self) -> Option<Bill> {
        self.usage.as_ref()?.get().map(Bill::Units)
    }

    fn settle(&mut self, bill: Bill) {
        if let Some(held) = self.held.take() {
            held.settle(bill);
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // A panic is no way to be served for nothing.
        let bill = if std::thread::panicking() { Bill::Estimate } else { self.if_dropped };
        self.settle(self.said().unwrap_or(bill));
    }
}

/// A tab that stays open until the body of the answer has been sent.
pub(crate) struct Meter {
    tab: Box<Tab>,
    /// How many bytes are a unit, where bytes are counted.
    bytes: Option<u64>,
    sent: u64,
}

impl Meter {
    /// So many more bytes were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let units = match self.bytes {
            Some(per_unit) => Some(self.sent.div_ceil(per_unit)),
            None => self.tab.usage.as_ref().and_then(Usage::get),
        };
        let Some(units) = units else { return };
        if self.bytes.is_some() {
            self.tab.if_dropped = Bill::Units(units);
        }
        if let Some(held) = &mut self.tab.held {
            held.raise(units);
        }
    }

    /// The body has ended.
    pub(crate) fn ended(mut self) {
        let bill = self.tab.said().unwrap_or(self.tab.if_dropped);
        self.tab.settle(bill);
    }
}
