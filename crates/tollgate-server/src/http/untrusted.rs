//! Proxies that nobody has named: all of their clients would share the proxy's address.

use std::net::IpAddr;

use http::HeaderMap;

use crate::app::App;

impl App {
    /// Counts a request whose client's address is not believed, and warns of the first.
    pub(super) fn notice_untrusted(&self, peer: IpAddr, headers: &HeaderMap) {
        if !self.settings.client_ip.ignores(peer, headers) {
            return;
        }
        let before = self.metrics.untrusted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if before == 0 {
            tracing::warn!(
                %peer,
                "X-Forwarded-For of a peer that is no trusted proxy is ignored, its own address counts: \
                 if it is your proxy, all of its clients share one ip, name its network with \
                 --trusted-proxy (trusted_proxies); told once, tollgate_untrusted_forwarded_total goes on"
            );
        }
    }
}
