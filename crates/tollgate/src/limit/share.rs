//! What one of several nodes may give out of a limit, if they cannot ask each other.

use super::{Algorithm, Limit};

impl Limit {
    /// The limit divided by `nodes`, never less than one unit at a time.
    ///
    /// A bucket's rate stays exact where its count does not divide: the period is longer instead.
    pub(crate) fn divided_by(&self, nodes: u64) -> Limit {
        let nodes = nodes.max(1);
        let part = |units: u64| (units / nodes).max(1);
        if !self.is_bucket() {
            return Limit { count: part(self.count), ..self.clone() };
        }
        let held = match self.algorithm {
            Algorithm::LeakyQueue => part(self.capacity()) - 1,
            _ => part(self.capacity()),
        };
        let fewer = Limit { count: part(self.count), burst: Some(held), ..self.clone() };
        if self.count.is_multiple_of(nodes) {
            return fewer;
        }
        let longer = u32::try_from(nodes).ok().and_then(|nodes| self.period.checked_mul(nodes));
        let slower = longer.map(|period| Limit { count: self.count, period, ..fewer.clone() });
        // What no limit can be is too slow to matter.
        slower.filter(|limit| limit.validate().is_ok()).unwrap_or(fewer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::limit::Limit;

    #[test]
    fn nodes_together_have_the_limit_or_one_unit_each() {
        for (limit, nodes, share) in [
            ("100/min", 4, "25/min"),
            ("100/min burst 20", 4, "25/min burst 5"),
            ("7/s burst 2", 4, "7/4s burst 1"),
            ("1/s", 3, "1/3s"),
            ("8/s leaky_bucket queue burst 7", 4, "2/s leaky_bucket queue burst 1"),
            ("10/min sliding_log", 3, "3/min sliding_log"),
            ("2/hour fixed_window", 5, "1/hour fixed_window"),
            ("100/min", 0, "100/min"),
        ] {
            let [limit, share]: [Limit; 2] = [limit, share].map(|text| text.parse().unwrap());
            let divided = limit.divided_by(nodes);
            assert_eq!(divided.to_string().parse::<Limit>().unwrap().capacity(), share.capacity());
            let per_nodes = |limit: &Limit| (limit.count(), limit.period(), limit.capacity());
            assert_eq!(per_nodes(&divided), per_nodes(&share), "{limit} of {nodes}");
            divided.validate().unwrap();
        }
    }
}
