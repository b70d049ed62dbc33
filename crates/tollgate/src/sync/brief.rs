//! A lock for what takes nanoseconds. To unlock is a plain store, which the processor does beside
//! what comes next; a lock that has to look for sleepers, as parking_lot's, waits for the line first,
//! and that is most of what a check of a hot key costs.
//!
//! An unlock wakes no thread. A waiting thread spins for some microseconds; when the holder has lost its
//! core or lays a table out anew, it yields, and then looks again after ever longer naps.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::lock_api::{GuardNoSend, RawMutex};

/// How often a thread looks at a lock before it gives way, and how long it pauses in between: some
/// microseconds in all. With longer pauses a thread misses its turn more often and the tail grows;
/// with shorter ones it slows down the thread that holds the lock.
const LOOKS: u32 = 64;
const PAUSES: u32 = 2;

/// How often it gives way before it naps, and the longest nap.
const YIELDS: u32 = 16;
const LONGEST_NAP: Duration = Duration::from_micros(200);

/// Whether it is locked.
pub(crate) struct SpinLock {
    locked: AtomicBool,
    /// Whether a thread has napped, for tests.
    #[cfg(test)]
    napped: AtomicBool,
}

// SAFETY: of all who swap, only the one that finds `false` has the lock, until it stores `false`
// again. What it did before that store is seen by who finds it: Release here, Acquire there.
unsafe impl RawMutex for SpinLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use is a new lock")]
    const INIT: SpinLock = SpinLock {
        locked: AtomicBool::new(false),
        #[cfg(test)]
        napped: AtomicBool::new(false),
    };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::Acquire)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        // Relaxed: who finds it free still has to take it.
        self.locked.load(Ordering::Relaxed)
    }
}

impl SpinLock {
    #[cold]
    fn wait(&self) {
        for _ in 0..LOOKS {
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
            if self.take_if_free() {
                return;
            }
        }
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if self.take_if_free() {
                return;
            }
        }
        let mut nap = Duration::from_micros(1);
        while !self.take_if_free() {
            #[cfg(test)]
            self.napped.store(true, Ordering::Relaxed);
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }

    /// To look leaves the lock's line where it is; to try would take it from its holder.
    fn take_if_free(&self) -> bool {
        !self.is_locked() && self.try_lock()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use tollgate_testkit::eventually;

    use super::SpinLock;

    type LoomlessMutex<T> = parking_lot::lock_api::Mutex<SpinLock, T>;

    #[test]
    fn of_many_threads_one_at_a_time_is_inside() {
        let (count, inside) = (LoomlessMutex::new(0_usize), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut count = count.lock();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        *count += 1;
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(*count.lock(), 8 * 20_000);
    }

    #[test]
    fn who_waits_longer_than_it_looks_still_gets_the_lock() {
        let lock = LoomlessMutex::new(());
        thread::scope(|scope| {
            let held = lock.lock();
            let waiter = scope.spawn(|| drop(lock.lock()));
            // SAFETY: nothing is locked or unlocked by this.
            let napped = || unsafe { lock.raw() }.napped.load(Ordering::Relaxed);
            eventually("a thread that naps", napped);
            assert!(lock.is_locked() && lock.try_lock().is_none());
            drop(held);
            waiter.join().expect("it gets the lock");
        });
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_panic_inside_leaves_it_free() {
        let lock = LoomlessMutex::new(());
        let panicked = thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let _held = lock.lock();
                panic!("on purpose");
            });
            inside.join().is_err()
        });
        assert!(panicked && !lock.is_locked());
    }
}
