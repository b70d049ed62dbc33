//! Eight real processes on one real server, two of which are killed: every admission is counted, and
//! no interval has more than the bound says.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Client, Commands};
use tempfile::TempDir;
use tollgate::{Limit, Policy, Request, SyncMode};
use tollgate_redis::RedisGate;
use tollgate_testkit::{RedisServer, eventually};

use super::leased;
use crate::common::{connect, wait};

const URL: &str = "TOLLGATE_LEASE_URL";
const FILE: &str = "TOLLGATE_LEASE_FILE";
/// The file that ends the processes, in the same folder as theirs.
const STOP: &str = "stop";
const PROCESSES: usize = 8;

const TTL: Duration = Duration::from_millis(400);
const RATE: u64 = 2000;
const BURST: u64 = 500;
const PER_WINDOW: u64 = 4000;

fn policy() -> Policy {
    let rate = leased("rate", Limit::per_second(RATE).burst(BURST)).matches("route", "/rate");
    let hour =
        Limit::fixed_window(PER_WINDOW, Duration::from_secs(3600)).starting_at_first_request();
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
    let stop = Path::new(&path).with_file_name(STOP);
    let file = Arc::new(Mutex::new(OpenOptions::new().append(true).open(path).unwrap()));
    wait(async {
        let gate = RedisGate::with_store(connect(&url).await, policy()).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4_u64 {
            tasks.spawn(spend(gate.clone(), worker, file.clone(), stop.clone()));
        }
        while tasks.join_next().await.is_some() {}
        gate.return_leases().await;
    });
}

/// Calls in bursts, with pauses in which borrowed units are idle and are returned, until the file
/// `stop` is there.
async fn spend(gate: RedisGate, worker: u64, file: Arc<Mutex<File>>, stop: PathBuf) {
    let is_rate = worker.is_multiple_of(2);
    let route = if is_rate { "/rate" } else { "/hour" };
    let request = Request::new().with("user", "ana").with("route", route);
    let mut round = u64::from(std::process::id()) * 7 + worker;
    while !stop.exists() {
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
        .args(["lease::processes::spends_for_a_while", "--exact", "--ignored"])
        .env(URL, url)
        .env(FILE, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Processes that share a server, and the files with what each of them admits.
struct Fleet {
    server: RedisServer,
    gate: RedisGate,
    folder: TempDir,
    children: Vec<Child>,
}

impl Fleet {
    fn start() -> Fleet {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let child = |number: usize| {
            let path = folder.path().join(number.to_string());
            File::create(&path).unwrap();
            start(&server.url(), &path)
        };
        let children = (0..PROCESSES).map(child).collect();
        let gate =
            wait(async { RedisGate::with_store(connect(&server.url()).await, policy()).unwrap() });
        Fleet { server, gate, folder, children }
    }

    /// What some of the processes have admitted so far.
    fn admitted(&self, processes: Range<usize>) -> Vec<Admitted> {
        let mut all = Vec::new();
        for number in processes {
            let bytes = std::fs::read(self.folder.path().join(number.to_string())).unwrap();
            all.extend(bytes.chunks_exact(Admitted::BYTES).map(Admitted::read));
        }
        all
    }

    /// `true` if the store has no unit of the window left. The processes may have admitted fewer
    /// requests than it has units: a call that timed out was charged and is not counted.
    fn window_is_used_up(&self) -> bool {
        let request = Request::new().with("user", "ana").with("route", "/hour");
        let ruling = wait(self.gate.peek(&request));
        !ruling.is_allowed() && !ruling.is_degraded()
    }

    /// Kills the first two processes: the units they have borrowed are lost with them.
    fn kill_two(&mut self) {
        for child in &mut self.children[..2] {
            child.kill().unwrap();
        }
    }

    /// Stops the other processes, and looks at what all of them admitted.
    fn end(mut self) {
        File::create(self.folder.path().join(STOP)).unwrap();
        for child in &mut self.children {
            child.wait().unwrap();
        }
        every_key_expires(&self.server);
        let all = self.admitted(0..PROCESSES);
        let (rate, hour): (Vec<Admitted>, Vec<Admitted>) = all.iter().partition(|one| one.is_rate);
        let (of_rate, of_hour) = (leased_by(&all, true), leased_by(&all, false));
        println!(
            "{} by rate, {of_rate} of them from hand; {} by window, {of_hour} of them from hand",
            rate.len(),
            hour.len()
        );
        assert!(hour.len() as u64 <= PER_WINDOW, "{} in one window", hour.len());
        holds_the_bound(&rate);
    }
}

/// The numbers of admissions, to show if a wait fails.
fn count(all: &[Admitted]) -> String {
    let of_rate = all.iter().filter(|one| one.is_rate).count();
    let (rate, window) = (leased_by(all, true), leased_by(all, false));
    let of_window = all.len() - of_rate;
    format!("rate: {of_rate}, {rate} of them leased; window: {of_window}, {window} of them leased")
}

/// How many of one rule were paid from hand.
fn leased_by(admitted: &[Admitted], is_rate: bool) -> usize {
    admitted.iter().filter(|one| one.is_leased && one.is_rate == is_rate).count()
}

#[test]
fn eight_processes_never_admit_more_than_the_bound() {
    // On a busy machine a window can be used up before enough of it was leased: the bounds are
    // checked all the same, and another fleet starts.
    eventually("a fleet that uses leases of both rules", || {
        let mut fleet = Fleet::start();
        let uses_leases = eventually("leased admissions, or the end of the window", || {
            let all = fleet.admitted(0..PROCESSES);
            let have_some =
                (0..2).all(|number| leased_by(&fleet.admitted(number..number + 1), true) > 0);
            let is_enough =
                have_some && leased_by(&all, true) > 100 && leased_by(&all, false) > 100;
            if is_enough || fleet.window_is_used_up() { Ok(is_enough) } else { Err(count(&all)) }
        });
        fleet.kill_two();
        let before = fleet.admitted(2..PROCESSES).len();
        eventually("more admissions", || fleet.admitted(2..PROCESSES).len() > before + 500);
        fleet.end();
        uses_leases
    });
}

#[test]
#[ignore = "long: eight processes for half a minute, killed at a random moment"]
fn long_eight_processes_never_admit_more_than_the_bound() {
    let mut fleet = Fleet::start();
    let moment = Duration::from_millis(u64::from(std::process::id()) * 7919 % 20_000);
    std::thread::sleep(moment);
    fleet.kill_two();
    std::thread::sleep(Duration::from_secs(30) - moment);
    let all = fleet.admitted(0..PROCESSES);
    fleet.end();
    assert!(leased_by(&all, true) > 100 && leased_by(&all, false) > 100, "leases were used");
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
        // 0 is less than a millisecond, -2 a key that has gone since.
        assert!(left >= 0 || left == -2, "{}: {left}", key.escape_ascii());
    }
}
