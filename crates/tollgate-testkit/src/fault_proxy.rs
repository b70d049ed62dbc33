//! A proxy between a client and a real server that breaks what passes, as it is told.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

/// How often a thread looks whether the fault has changed.
const LOOK: Duration = Duration::from_millis(1);

/// What the proxy does to connections, the open ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Passes everything.
    None,
    /// Nobody listens, and what is open is cut.
    Refuse,
    /// Half of the next answer passes, and then the connection is reset.
    Reset,
    /// Every answer comes so much later, or when the fault ends.
    Delay(Duration),
    /// Connections open and stay open, and nothing passes either way until the fault ends.
    Freeze,
    /// Answers are bytes that mean nothing.
    Garbage,
    /// Half of an answer passes; the rest when the fault ends.
    HalfAnswer,
    /// Answers pass byte by byte, with so much time after each; the rest when the fault ends.
    Trickle(Duration),
}

/// A TCP proxy on a free port of 127.0.0.1. Dropped, it cuts all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<SocketAddr>,
    fault: Mutex<Fault>,
    accepted: AtomicU64,
    /// The connections that the proxy has not closed yet.
    open: AtomicU64,
    /// Whether somebody may be let in.
    listens: AtomicBool,
    ended: AtomicBool,
}

impl FaultProxy {
    /// A proxy to the server on `port`, that passes everything.
    ///
    /// # Panics
    /// Where no port is free.
    pub fn to(port: u16) -> FaultProxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            server: Mutex::new(local(port)),
            fault: Mutex::new(Fault::None),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            listens: AtomicBool::new(true),
            ended: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        thread::spawn(move || accept(&accepting, address, listener));
        FaultProxy { address, shared }
    }

    /// Where to connect to.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        if fault == Fault::Refuse {
            // Until the listener is gone for sure.
            while TcpStream::connect(self.address).is_ok() {
                thread::sleep(LOOK);
            }
        }
    }

    /// New connections lead to the server on `port`, as when a name is given to another server.
    pub fn lead_to(&self, port: u16) {
        *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner) = local(port);
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// The number of connections that are open. After [`Fault::Refuse`] it falls to 0: only then is
    /// every connection cut.
    pub fn open_connections(&self) -> u64 {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Freezes all connections for some time. The length is a part of the fault: nothing that a test
    /// waits for.
    pub fn stall(&self, length: Duration) {
        self.set(Fault::Freeze);
        thread::sleep(length);
        self.set(Fault::None);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all connections are to be cut: once nobody is let in any more, so that who is cut does
    /// not come back only to be cut again.
    fn cuts(&self) -> bool {
        let is_shut = self.fault() == Fault::Refuse && !self.listens.load(Ordering::Relaxed);
        self.ended.load(Ordering::Relaxed) || is_shut
    }

    fn wait_while(&self, fault: Fault) {
        self.wait_while_for(fault, Duration::MAX);
    }

    /// Waits for `time`, or until the fault ends.
    fn wait_while_for(&self, fault: Fault, time: Duration) {
        let start = Instant::now();
        while self.fault() == fault && !self.cuts() && start.elapsed() < time {
            thread::sleep(LOOK.min(time));
        }
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn accept(shared: &Arc<Shared>, address: SocketAddr, first: TcpListener) {
    let mut listener = Some(first);
    while !shared.ended.load(Ordering::Relaxed) {
        if shared.fault() == Fault::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).ok();
        }
        shared.listens.store(listener.is_some(), Ordering::Relaxed);
        let Some(listening) = &listener else {
            thread::sleep(LOOK);
            continue;
        };
        listening.set_nonblocking(true).expect("a socket can be asked not to block");
        match listening.accept() {
            Ok((client, _)) => {
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                shared.open.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                thread::spawn(move || {
                    pass(&shared, client);
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Passes both ways until either side ends.
fn pass(shared: &Arc<Shared>, client: TcpStream) {
    let server = *shared.server.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(mut server) = TcpStream::connect(server) else { return };
    let set_up = |stream: &TcpStream| -> io::Result<TcpStream> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.try_clone()
    };
    let (Ok(mut asks), Ok(mut asked)) = (set_up(&client), set_up(&server)) else { return };
    let over = Arc::new(AtomicBool::new(false));
    let (asking, is_over) = (shared.clone(), over.clone());
    let questions = thread::spawn(move || {
        while let Some(bytes) = read(&asking, &is_over, &mut asks) {
            asking.wait_while(Fault::Freeze);
            if asking.cuts() || asked.write_all(&bytes).is_err() {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    while let Some(bytes) = read(shared, &over, &mut server) {
        if answer(shared, &client, &bytes).is_err() {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    let _ = questions.join();
    if shared.fault() == Fault::Reset {
        // Closed without a goodbye.
        let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    }
}

/// What has come; nothing at the end.
fn read(shared: &Shared, over: &AtomicBool, from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut buffer = [0; 16 * 1024];
    while !shared.cuts() && !over.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => return None,
            Ok(length) => return Some(buffer[..length].to_vec()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return None,
        }
    }
    None
}

fn answer(shared: &Shared, mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let half = bytes.len() / 2;
    match shared.fault() {
        Fault::None => to.write_all(bytes),
        Fault::Refuse if !shared.cuts() => to.write_all(bytes),
        Fault::Refuse => Err(ErrorKind::ConnectionAborted.into()),
        Fault::Reset => {
            to.write_all(&bytes[..half])?;
            Err(ErrorKind::ConnectionReset.into())
        }
        fault @ Fault::Delay(delay) => {
            shared.wait_while_for(fault, delay);
            to.write_all(bytes)
        }
        Fault::Freeze => {
            shared.wait_while(Fault::Freeze);
            to.write_all(bytes)
        }
        Fault::Garbage => to.write_all(b"\xff\x00\xfe no answer \x01\r\n\xff"),
        Fault::HalfAnswer => {
            to.write_all(&bytes[..half])?;
            shared.wait_while(Fault::HalfAnswer);
            to.write_all(&bytes[half..])
        }
        trickle @ Fault::Trickle(pause) => {
            for (number, byte) in bytes.iter().enumerate() {
                if shared.fault() != trickle {
                    return to.write_all(&bytes[number..]);
                }
                to.write_all(&[*byte])?;
                shared.wait_while_for(trickle, pause);
            }
            Ok(())
        }
    }
}
