//! Many requests at once, on few round trips.

use futures_util::future::join_all;

use crate::bounds::BATCH;
use crate::charge::{RedisCharge, RedisDecisions};
use crate::error::StoreError;
use crate::store::RedisStore;

impl RedisStore {
    /// Decides many requests, each as [`check_all`](Self::check_all) does: all its charges or none.
    /// They are pipelined on the connection, up to a thousand at a time, and share its round trips. In
    /// a Cluster each node's are pipelined on its own connection; requests over several slots are
    /// decided after the others of their thousand, one by one, so that they do not stand in each
    /// other's way.
    ///
    /// Answers come in the order of the requests; decided they are in any order. Each has its own
    /// answer or error.
    ///
    /// ```no_run
    /// # async fn example(store: tollgate_redis::RedisStore) -> Result<(), tollgate_redis::StoreError> {
    /// let per_user = store.limiter("per user", tollgate::Limit::per_minute(100))?;
    /// let requests: Vec<_> = (0..500).map(|user| [per_user.charge(user)]).collect();
    /// for answer in store.check_many(&requests).await {
    ///     println!("{}", answer?.is_allowed());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_many<'a>(
        &self,
        requests: &[impl AsRef<[RedisCharge<'a>]>],
    ) -> Vec<Result<RedisDecisions, StoreError>> {
        let mut answers = Vec::with_capacity(requests.len());
        for some in requests.chunks(BATCH) {
            let is_one_place = |charges: &[RedisCharge<'a>]| {
                self.is_one_place(charges.iter().map(RedisCharge::place))
            };
            let is_one_place = &is_one_place;
            let at_once = some.iter().map(|charges| async move {
                let charges = charges.as_ref();
                if is_one_place(charges) { Some(self.check_all(charges).await) } else { None }
            });
            // Each is sent when it is first polled, before any is waited for.
            for (charges, answer) in some.iter().zip(join_all(at_once).await) {
                answers.push(match answer {
                    Some(answer) => answer,
                    None => self.check_all(charges.as_ref()).await,
                });
            }
        }
        answers
    }
}
