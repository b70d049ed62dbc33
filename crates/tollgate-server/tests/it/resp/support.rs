//! A listener of the Redis protocol alone, and a session whose clock is manual.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::{Gate, Limit, ManualClock, MemoryStore, Policy, Rule};
use tollgate_server::{Resp, RespBounds, RespSession, serve_resp};

/// Ten a minute for each user, all at once; three a minute for each pair of tenant and route.
pub(crate) fn policy() -> Policy {
    Policy::new()
        .rule(Rule::new("per-user").key(["user"]).limit(Limit::per_minute(10)))
        .rule(Rule::new("per-route").key(["tenant", "route"]).limit(Limit::per_minute(3)))
        .rule(Rule::new("all").matches("total", "yes").limit(Limit::per_minute(5)))
}

pub(crate) fn gate() -> (Gate, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    (Gate::with_store(store, policy()).unwrap(), clock)
}

pub(crate) fn session() -> (RespSession, ManualClock) {
    let (gate, clock) = gate();
    (Resp::new(gate).session(), clock)
}

/// What a session answers to text.
pub(crate) fn say(session: &mut RespSession, commands: &[u8]) -> String {
    let mut out = Vec::new();
    session.answer(commands, &mut out);
    String::from_utf8(out).unwrap()
}

/// A task that runs [`serve_resp`], the entry point for programs that have a listener.
pub(crate) struct RespServer {
    pub(crate) address: SocketAddr,
    pub(crate) resp: Resp,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RespServer {
    pub(crate) async fn start(bounds: RespBounds, password: Option<&str>) -> RespServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let resp = Resp::with(gate().0, bounds, password);
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let task = tokio::spawn(serve_resp(listener, resp.clone(), stopped));
        RespServer { address, resp, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}
