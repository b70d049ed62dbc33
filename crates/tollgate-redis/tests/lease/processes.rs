//! Eight real processes on one real server, two of which are killed: every admission is counted, and
//! no interval has more than the bound says.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Client, Commands};
use tollgate::{Limit, Policy, Request, SyncMode};
use tollgate_redis::RedisGate;
use tollgate_testkit::RedisServer;

use crate::common::{connect, wait};
use crate::leased;

const URL: &str = "TOLLGATE_LEASE_URL";
const FILE: &str = "TOLLGATE_LEASE_FILE";
const PROCESSES: usize = 8;
const RUNS: Duration = Duration::from_millis(3000);

const TTL: Duration = Duration::from_millis(400);
const RATE: u64 = 2000;
const BURST: u64 = 500;
const PER_WINDOW: u64 = 4000;

fn policy() -> Policy {
    let rate = leased("rate", Limit::per_second(RATE).burst(BURST)).matches("route", "/rate");
    let hour = Limit::fixed_window(PER_WINDOW, Duration::from_secs(3600)).from_first();
    let hour = leased("hour", hour).matches("route", "/hour");
    let mut policy = Policy::new().rule(rate).rule(hour);
    (policy.sync, policy.lease_ttl) = (SyncMode::Leased, TTL);
    policy
}

/// One admission: which rule, whether it was paid from hand, and between which moments it was decided.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    is_rate: bool,
    is_leased: bool,
    from: u64,
    to: u64,
}

impl Admitted {
    const BYTES: usize = 18;

    fn write(self, file: &Mutex<File>) {
        let mut record = [0; Admitted::BYTES];
        (record[0], record[1]) = (u8::from(self.is_rate), u8::from(self.is_leased));
        record[2..10].copy_from_slice(&self.from.to_le_bytes());
        record[10..].copy_from_slice(&self.to.to_le_bytes());
        file.lock().unwrap().write_all(&record).unwrap();
    }

    fn read(record: &[u8]) -> Admitted {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let (from, to) = (number(&record[2..10]), number(&record[10..]));
        Admitted { is_rate: record[0] == 1, is_leased: record[1] == 1, from, to }
    }
}

/// The machine's time, which all processes share.
fn nanos() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

#[test]
#[ignore = "a node of the fleet"]
fn spends_for_a_while() {
    let (Ok(url), Ok(path)) = (std::env::var(URL), std::env::var(FILE)) else { return };
    let file = Arc::new(Mutex::new(OpenOptions::new().append(true).open(path).unwrap()));
    wait(async {
        let gate = RedisGate::on(connect(&url).await, policy()).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4_u64 {
            tasks.spawn(spend(gate.clone(), worker, file.clone()));
        }
        while tasks.join_next().await.is_some() {}
        gate.return_leases().await;
    });
}

/// Asks in bursts, with pauses in which what was borrowed lies idle and is given back.
async fn spend(gate: RedisGate, worker: u64, file: Arc<Mutex<File>>) {
    let (began, is_rate) = (nanos(), worker.is_multiple_of(2));
    let route = if is_rate { "/rate" } else { "/hour" };
    let request = Request::new().with("user", "ana").with("route", route);
    let mut round = u64::from(std::process::id()) * 7 + worker;
    while nanos() - began < u64::try_from(RUNS.as_nanos()).unwrap() {
        round = round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..(round >> 40) % 60 {
            let from = nanos();
            let ruling = gate.check(&request).await;
            if ruling.is_allowed() && !ruling.is_degraded() {
                let (is_leased, to) = (ruling.is_leased(), nanos());
                Admitted { is_rate, is_leased, from, to }.write(&file);
            }
        }
        tokio::time::sleep(Duration::from_millis((round >> 33) % 40)).await;
    }
}

fn start(url: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["processes::spends_for_a_while", "--exact", "--ignored"])
        .env(URL, url)
        .env(FILE, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn eight_processes_never_admit_more_than_the_bound() {
    let server = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..PROCESSES).map(|number| folder.path().join(number.to_string())).collect();
    let mut children: Vec<Child> = Vec::new();
    for path in &paths {
        File::create(path).unwrap();
        children.push(start(&server.url(), path));
    }
    std::thread::sleep(RUNS / 2);
    // What they have in hand is lost with them.
    for child in &mut children[..2] {
        child.kill().unwrap();
    }
    for mut child in children {
        child.wait().unwrap();
    }
    every_key_expires(&server);

    let mut all = Vec::new();
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        all.extend(bytes.chunks_exact(Admitted::BYTES).map(Admitted::read));
    }
    let (rate, hour): (Vec<Admitted>, Vec<Admitted>) = all.iter().partition(|one| one.is_rate);
    let paid = |of: &[Admitted]| of.iter().filter(|one| one.is_leased).count();
    println!(
        "{} by rate, {} of them from hand; {} by window, {} of them from hand",
        rate.len(),
        paid(&rate),
        hour.len(),
        paid(&hour)
    );
    assert!(paid(&rate) > 100 && paid(&hour) > 100, "leases were used");
    assert!(hour.len() as u64 <= PER_WINDOW, "{} in one window", hour.len());
    holds_the_bound(&rate);
}

/// Over every interval, B + (d + ttl) x N / P at most. What was decided within it for sure is counted:
/// what had ended by its end, less what had begun before it.
fn holds_the_bound(admitted: &[Admitted]) {
    let mut begun: Vec<u64> = admitted.iter().map(|one| one.from).collect();
    let mut ended: Vec<u64> = admitted.iter().map(|one| one.to).collect();
    begun.sort_unstable();
    ended.sort_unstable();
    let ttl = u128::from(RATE) * TTL.as_nanos();
    for (before, from) in begun.iter().enumerate().step_by(7) {
        for (up_to, to) in ended.iter().enumerate().filter(|(_, to)| *to > from).step_by(5) {
            let counted = (up_to + 1).saturating_sub(before) as u128;
            let since = u128::from(to - from) * u128::from(RATE);
            let most = u128::from(BURST) + (since + ttl) / 1_000_000_000;
            assert!(counted <= most, "{counted} within {} ns, at most {most}", to - from);
        }
    }
}

fn every_key_expires(server: &RedisServer) {
    let client = Client::open(server.url()).unwrap();
    let (mut scanning, mut asking) =
        (client.get_connection().unwrap(), client.get_connection().unwrap());
    let keys: Vec<Vec<u8>> = scanning.scan().unwrap().map(Result::unwrap).collect();
    assert!(!keys.is_empty());
    for key in keys {
        let left: i64 = asking.pttl(&key).unwrap();
        assert!(left > 0 || left == -2, "{}: {left}", key.escape_ascii());
    }
}
