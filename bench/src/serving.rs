//! A server in this process, on threads of its own.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tollgate::Gate;
use tollgate_server::{Server, ServerBuilder, Stopped};

/// A server that answers until it is dropped.
pub(crate) struct Serving {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Stopped>>,
}

pub(crate) fn serve(change: impl FnOnce(ServerBuilder) -> ServerBuilder, gate: Gate) -> Serving {
    let anywhere = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    let server = change(Server::builder(gate).http(anywhere).resp(anywhere).grpc(None));
    let server = runtime.block_on(server.bind()).expect("there is a free port");
    let (http, resp) = (server.http_address(), server.resp_address());
    let (stop, stopping) = oneshot::channel::<()>();
    let run = move || runtime.block_on(server.run(async { drop(stopping.await) }));
    Serving { http, resp, stop: Some(stop), thread: Some(std::thread::spawn(run)) }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
