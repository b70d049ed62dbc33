//! Changes of one key's state that are made whatever it holds: giving back, ending, making new.

use std::pin::pin;
use std::sync::Arc;

use tollgate::port::LeaseRefund;

use crate::bounds::TRIES;
use crate::error::StoreError;
use crate::fetch::{self, Conversion};
use crate::limiter::RedisLimiterInner;
use crate::request::{RawReply, ScriptCharge};
use crate::rescale;
use crate::script;
use crate::store::RedisStore;

impl RedisStore {
    /// Changes one key's state; whether anything was known of it. `what` is asked again for every
    /// try, since costs name the calendar's window.
    pub(crate) async fn change(
        &self,
        limiter: &Arc<RedisLimiterInner>,
        key: &[u8],
        what: impl Fn() -> Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let _forgets = self.denials().forget_at_last(key);
        self.change_quietly(limiter, key, what).await
    }

    /// The same for what the deny cache is told of otherwise, or need not know.
    pub(crate) async fn change_quietly(
        &self,
        limiter: &Arc<RedisLimiterInner>,
        key: &[u8],
        what: impl Fn() -> Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        self.connection().within(pin!(self.change_until_done(limiter, key, what))).await
    }

    /// Gives back what a node borrowed of a key and has not spent; once, whatever becomes of it. A
    /// state of other numbers is left as it is: what the units would be there, nobody can say.
    pub(crate) async fn give_back_lent(
        &self,
        limiter: &Arc<RedisLimiterInner>,
        key: &[u8],
        back: LeaseRefund,
    ) -> Result<(), StoreError> {
        let _forgets = self.denials().forget_at_last(key);
        let amount = limiter.terms.amount(back.units).signed(script::moment(back.moment)).0;
        let what = [b"return".to_vec(), amount];
        let change = async {
            for _ in 0..TRIES {
                // A calendar's window must be said; until it is, nothing was done.
                match self.change_once(limiter, key, &what).await? {
                    RawReply { verdict: script::CALENDAR, now, .. } => limiter.learn_window(now),
                    _ => return Ok(()),
                }
            }
            Err(StoreError::Script(format!("no answer after {TRIES} tries")))
        };
        self.connection().within(pin!(change)).await
    }

    async fn change_once(
        &self,
        limiter: &Arc<RedisLimiterInner>,
        key: &[u8],
        what: &[Vec<u8>],
    ) -> Result<RawReply, StoreError> {
        let (now, charge) = (self.told_time(), limiter.charge(0));
        let log: &[u8] = if limiter.terms.is_log() { b"log" } else { b"" };
        let head = [now.as_bytes(), b"change", log, &charge];
        let args: Vec<&[u8]> = head.into_iter().chain(what.iter().map(Vec::as_slice)).collect();
        RawReply::read(self.connection().run(&[key], &args).await?)
    }

    pub(crate) async fn change_until_done(
        &self,
        limiter: &Arc<RedisLimiterInner>,
        key: &[u8],
        what: impl Fn() -> Vec<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let mut conversion: Option<Box<Conversion<'_>>> = None;
        let mut tried = 0;
        while fetch::may_try(conversion.as_deref(), &mut tried, TRIES) {
            let reply = self.change_once(limiter, key, &what()).await?;
            match reply.verdict {
                0 | 1 => return Ok(reply.verdict == 1),
                script::OTHER => {
                    let charge = ScriptCharge { limiter, key: key.to_vec(), cost: 0 };
                    let conversion =
                        conversion.get_or_insert_with(|| Box::new(Conversion::new(self)));
                    if let Some(state) = Box::pin(conversion.fetch(key)).await? {
                        Box::pin(rescale::rescale_fetched(self, &charge, &state, reply.now))
                            .await?;
                    }
                }
                script::CALENDAR => limiter.learn_window(reply.now),
                other => return Err(StoreError::Script(format!("it answered {other}"))),
            }
        }
        Err(StoreError::Script(format!("no answer after {TRIES} tries")))
    }
}
