//! A real Redis Cluster for tests: some `redis-server`s on free ports that know each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::ports::free_port;
use crate::redis::RedisServer;
use crate::wait::eventually;

/// Slots of any Cluster.
const SLOTS: usize = 16_384;

/// Primaries that share the slots, and their replicas. Gone when the test is.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    primaries: usize,
    /// The replicas of each primary.
    replicas: usize,
}

impl RedisCluster {
    /// Starts `primaries` without replicas.
    ///
    /// # Panics
    /// Where there is no `redis-server`, or the nodes do not agree.
    pub fn start(primaries: usize) -> RedisCluster {
        RedisCluster::with_replicas(primaries, 0)
    }

    /// Starts `primaries` with a number of replicas each. Node `primaries + i` is a replica of node
    /// `i % primaries`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn with_replicas(primaries: usize, replicas: usize) -> RedisCluster {
        let nodes = (0..primaries * (1 + replicas)).map(|_| node(replicas)).collect();
        let cluster = RedisCluster { nodes, primaries, replicas };
        cluster.form();
        cluster
    }

    /// Where to connect to: all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Its nodes, primaries first, as they were when it was started.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// One more node, which knows the others and serves no slots.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn add_node(&mut self) -> usize {
        self.nodes.push(node(self.replicas));
        let count = self.nodes.len();
        self.introduce(count - 1);
        self.wait_for(|cluster| {
            (0..count).all(|node| cluster.knows(node, count) && cluster.is_ok(node))
        });
        count - 1
    }

    /// Kills a node without a warning.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Kills a node and starts it again where it was, knowing the others but no keys.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    /// What a node answers to a command.
    ///
    /// # Panics
    /// Where it does not answer.
    pub fn ask(&self, node: usize, line: &str) -> String {
        command(self.nodes[node].port(), line)
    }

    /// A node's name among the others.
    pub fn id(&self, node: usize) -> String {
        self.ask(node, "CLUSTER MYID")
    }

    /// Waits until `holds`.
    ///
    /// # Panics
    /// Where it does not for a long time.
    pub fn wait_for(&self, holds: impl Fn(&RedisCluster) -> bool) {
        eventually("the nodes of the cluster to agree", || holds(self));
    }

    fn form(&self) {
        let (primaries, count) = (self.primaries, self.nodes.len());
        for node in 0..count {
            self.ask(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", node + 1));
            if node < primaries {
                let slots = SLOTS * node / primaries..SLOTS * (node + 1) / primaries;
                let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
                self.ask(node, &format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
            }
            if node > 0 {
                self.introduce(node);
            }
        }
        self.wait_for(|cluster| (0..count).all(|node| cluster.knows(node, count)));
        for replica in primaries..count {
            let primary = self.id(replica % primaries);
            self.ask(replica, &format!("CLUSTER REPLICATE {primary}"));
        }
        self.wait_for(|cluster| (0..count).all(|node| cluster.is_ok(node)));
        self.wait_for(|cluster| {
            (primaries..count).all(|replica| {
                cluster.ask(replica, "INFO replication").contains("master_link_status:up")
            })
        });
    }

    /// Makes a node known to the first, and so to all.
    fn introduce(&self, node: usize) {
        self.ask(0, &format!("CLUSTER MEET 127.0.0.1 {}", self.nodes[node].port()));
    }

    fn knows(&self, node: usize, count: usize) -> bool {
        let nodes = self.ask(node, "CLUSTER NODES");
        nodes.lines().count() == count && !nodes.contains("handshake")
    }

    fn is_ok(&self, node: usize) -> bool {
        self.ask(node, "CLUSTER INFO").contains("cluster_state:ok")
    }
}

/// A node of a cluster with this number of replicas for each primary.
fn node(replicas: usize) -> RedisServer {
    // Replicas take over soon after a primary stops. Without replicas no test needs that, and a node
    // that a busy machine delays must not count as stopped.
    let timeout = if replicas == 0 { "30000" } else { "1500" };
    let options = [
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", timeout],
        // Replicas take over however long they have not heard of their primary.
        ["--cluster-replica-validity-factor", "0"],
        ["--repl-diskless-sync-delay", "0"],
    ];
    let server = RedisServer::on_port(port_with_bus(), &options.concat());
    // A primary that gives its last slot away stays one; servers before 7.0 need not be told.
    command(server.port(), "CONFIG SET cluster-allow-replica-migration no");
    server
}

/// A free port, with the one free that nodes talk to each other by.
fn port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let bus = port.checked_add(10_000);
        if bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok()) {
            return port;
        }
    }
}

/// What the server on `port` answers to a command without spaces in its arguments: texts, numbers and
/// errors as they are, a list's items on lines of their own.
///
/// # Panics
/// Where it does not answer.
pub fn command(port: u16, line: &str) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    let mut reader = BufReader::new(stream);
    reader.get_mut().write_all(format!("{line}\r\n").as_bytes()).expect("the server listens");
    read(&mut reader)
}

fn read(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("the server answers");
    let (kind, rest) = line.trim_end().split_at(line.len().min(1));
    let length: usize = rest.parse().unwrap_or(0);
    match kind {
        "$" => {
            let mut bytes = vec![0; length + 2];
            reader.read_exact(&mut bytes).expect("the server answers in full");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        }
        "*" => (0..length).map(|_| read(reader)).collect::<Vec<_>>().join("\n"),
        _ => rest.to_owned(),
    }
}
