//! Time: the only file that asks the machine what time it is.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;
#[cfg(not(all(feature = "wasm_js", target_family = "wasm", target_os = "unknown")))]
use std::time::{Instant, SystemTime, UNIX_EPOCH};
#[cfg(all(feature = "wasm_js", target_family = "wasm", target_os = "unknown"))]
use web_time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};

/// A moment: nanoseconds since 1970 in UTC, up to the year 2262.
///
/// Later moments are cut to the last one that can be told, so that adding a limit's longest
/// period to any timestamp cannot wrap: there, time stands still and no capacity comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last moment that can be told.
    pub const MAX: Timestamp = Timestamp(u64::MAX / 2);

    /// The moment `nanos` nanoseconds after 1970 began.
    pub const fn from_nanos(nanos: u64) -> Timestamp {
        if nanos > Timestamp::MAX.0 { Timestamp::MAX } else { Timestamp(nanos) }
    }

    /// The moment `seconds` seconds after 1970 began.
    pub const fn from_secs(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `duration` later, or the last one that can be told.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Timestamp {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(self.0.saturating_add(nanos))
    }

    /// The moment `nanos` nanoseconds later, or the last one that can be told.
    pub(crate) const fn after_nanos(self, nanos: u64) -> Timestamp {
        Timestamp::from_nanos(self.0.saturating_add(nanos))
    }

    /// The moment of an instant of the machine's monotonic clock.
    #[cfg(all(feature = "tokio", not(target_family = "wasm")))]
    pub(crate) fn of_instant(instant: Instant) -> Timestamp {
        let base = BASE.get_or_init(ClockBase::new);
        let then = Timestamp::from_nanos(base.unix_nanos);
        match instant.checked_duration_since(base.instant) {
            Some(later) => then.saturating_add(later),
            None => {
                let earlier = base.instant.duration_since(instant).as_nanos();
                let earlier = u64::try_from(earlier).unwrap_or(u64::MAX);
                Timestamp(then.0.saturating_sub(earlier))
            }
        }
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn saturating_since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// What a store reads the time from: the machine, or a clock that stands still until it is moved.
///
/// The system clock is monotonic: it is set by the wall clock once, when the process first asks,
/// and from then on follows the machine's monotonic clock, so that a stepped wall clock neither
/// mints capacity nor reopens a window.
#[derive(Clone, Debug, Default)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug, Default)]
enum ClockSource {
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        // Calibrating takes some milliseconds: better here than in somebody's first check.
        system_nanos();
        Clock(ClockSource::System)
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::System => Timestamp(system_nanos()),
            ClockSource::Manual(clock) => clock.now(),
        }
    }

    /// The manual clock behind this one, if it is not the machine's.
    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match &self.0 {
            ClockSource::System => None,
            ClockSource::Manual(clock) => Some(clock),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Clock {
        Clock(ClockSource::Manual(clock))
    }
}

/// A clock for tests and simulations: it stands still until it is moved. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, ManualClock};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder(Limit::per_second(1)).clock(clock.clone()).build()?;
/// assert!(limiter.check("ana").is_allowed());
/// assert!(!limiter.check("ana").is_allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("ana").is_allowed());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<ManualTime>>);

#[derive(Debug)]
struct ManualTime {
    now: Timestamp,
    /// Who sleeps until when; the number tells sleepers of one moment apart.
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    last_sleeper: u64,
}

impl ManualClock {
    /// A clock at the beginning of 2000 in UTC: where windows begin that divide a day.
    pub fn new() -> ManualClock {
        ManualClock::at(Timestamp::from_secs(946_684_800))
    }

    /// A clock at `now`.
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(Arc::new(Mutex::new(ManualTime {
            now,
            sleepers: BTreeMap::new(),
            last_sleeper: 0,
        })))
    }

    /// The time it shows.
    pub fn now(&self) -> Timestamp {
        self.lock().now
    }

    /// Moves the time on, and wakes who has slept until then. Moves of several threads add up.
    pub fn advance(&self, by: Duration) {
        self.move_to(|now| now.saturating_add(by));
    }

    /// Sets the time, forwards or back, and wakes who has slept until then.
    pub fn set(&self, now: Timestamp) {
        self.move_to(|_| now);
    }

    /// Sets the time to what follows from the time, with nobody in between.
    fn move_to(&self, then: impl FnOnce(Timestamp) -> Timestamp) {
        let mut manual = self.lock();
        let now = then(manual.now);
        manual.now = now;
        let asleep = manual.sleepers.split_off(&(Timestamp(now.0.saturating_add(1)), 0));
        let woken = std::mem::replace(&mut manual.sleepers, asleep);
        // Released first: a woken task may ask this clock for the time at once.
        drop(manual);
        woken.into_values().for_each(Waker::wake);
    }

    /// When the next sleeper wants to be woken: where a simulation should move the clock to.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.lock().sleepers.keys().next().map(|(at, _)| *at)
    }

    /// Wakes `waker` at `until`, or at once if that has come. Returns what [`forget`] takes.
    ///
    /// [`forget`]: ManualClock::forget
    pub(crate) fn wake_at(&self, until: Timestamp, waker: &Waker) -> (Timestamp, u64) {
        let mut manual = self.lock();
        manual.last_sleeper += 1;
        let sleeper = (until, manual.last_sleeper);
        if manual.now >= until {
            drop(manual);
            waker.wake_by_ref();
        } else {
            manual.sleepers.insert(sleeper, waker.clone());
        }
        sleeper
    }

    pub(crate) fn forget(&self, sleeper: (Timestamp, u64)) {
        self.lock().sleepers.remove(&sleeper);
    }

    fn lock(&self) -> MutexGuard<'_, ManualTime> {
        self.0.lock()
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

/// The processor's cycle counter takes a third of the time that asking the operating system does,
/// but it drifts and on some machines disagrees between cores. So each thread asks the operating
/// system once a millisecond and counts cycles only in between: the two never part by more than
/// what a millisecond can drift, and a step back is absorbed by the clamp in every algorithm.
const TRUST_NANOS: u64 = 1_000_000;

struct ClockBase {
    cycles: quanta::Clock,
    /// What a cycle takes, in nanoseconds times 2^32: of so few cycles as are trusted the product
    /// fits 64 bits, and what is lost in rounding is less than a nanosecond.
    nanos_per_cycle: u64,
    /// How many cycles take [`TRUST_NANOS`].
    trusted_cycles: u64,
    instant: Instant,
    unix_nanos: u64,
}

static BASE: OnceLock<ClockBase> = OnceLock::new();

/// What stands for the cycles of a thread that has not asked yet: as far from any count as can be.
const NEVER: u64 = 1 << 63;

thread_local! {
    /// What the cycle counter and the operating system said when this thread last asked both.
    static ANCHOR: Cell<(u64, u64)> = const { Cell::new((NEVER, 0)) };
}

/// Never past [`Timestamp::MAX`].
#[inline]
fn system_nanos() -> u64 {
    let base = BASE.get_or_init(ClockBase::new);
    let cycles = base.cycles.raw();
    let (anchor_cycles, anchor_nanos) = ANCHOR.get();
    // Of a counter that went back, or that this thread has not asked yet, a number far above.
    let since = cycles.wrapping_sub(anchor_cycles);
    if since < base.trusted_cycles {
        return anchor_nanos + ((since * base.nanos_per_cycle) >> 32);
    }
    base.resynchronise(cycles)
}

impl ClockBase {
    fn new() -> ClockBase {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let cycles = quanta::Clock::new();
        // The more cycles are asked about, the more exact is the answer: some minutes of them.
        let nanos_per_cycle = cycles.delta_as_nanos(0, 1 << 40) >> 8;
        ClockBase {
            nanos_per_cycle,
            trusted_cycles: (TRUST_NANOS << 32).checked_div(nanos_per_cycle).unwrap_or(0),
            cycles,
            instant: Instant::now(),
            unix_nanos: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX / 2),
        }
    }

    #[cold]
    fn resynchronise(&self, cycles: u64) -> u64 {
        let elapsed = u64::try_from(self.instant.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        let nanos = self.unix_nanos.saturating_add(elapsed).min(Timestamp::MAX.0);
        // Near the end of time nothing is counted from here: what is could be past it.
        if nanos < Timestamp::MAX.0 - TRUST_NANOS {
            ANCHOR.set((cycles, nanos));
        }
        nanos
    }
}
