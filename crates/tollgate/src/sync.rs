//! The locks and atomics everything uses: parking_lot's and the standard library's, or loom's when
//! it explores every interleaving (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// How often a thread looks at a lock before it goes to sleep, and how long it pauses in between:
/// some microseconds in all. Locks are held for nanoseconds, and for microseconds only while a table
/// grows. With longer pauses a thread misses its turn more often and the tail grows; with shorter
/// ones it slows down the thread that holds the lock.
#[cfg(not(loom))]
const LOOKS: u32 = 64;
#[cfg(not(loom))]
const PAUSES: u32 = 2;

#[cfg(not(loom))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock_or_wait(mutex).0
}

/// Locks, and says whether somebody else had it first.
#[cfg(not(loom))]
#[inline]
pub(crate) fn lock_or_wait<T>(mutex: &Mutex<T>) -> (MutexGuard<'_, T>, bool) {
    match mutex.try_lock() {
        Some(guard) => (guard, false),
        None => (lock_when_free(mutex), true),
    }
}

#[cfg(not(loom))]
#[cold]
fn lock_when_free<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        // To look leaves the lock's line where it is; to try would take it from its holder.
        if !mutex.is_locked()
            && let Some(guard) = mutex.try_lock()
        {
            return guard;
        }
    }
    mutex.lock()
}

#[cfg(not(loom))]
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read()
}

#[cfg(not(loom))]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write()
}

#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a model that panics has failed already")
}

#[cfg(loom)]
pub(crate) fn lock_or_wait<T>(mutex: &Mutex<T>) -> (MutexGuard<'_, T>, bool) {
    match mutex.try_lock() {
        Ok(guard) => (guard, false),
        Err(_) => (lock(mutex), true),
    }
}

#[cfg(loom)]
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect("a model that panics has failed already")
}

#[cfg(loom)]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect("a model that panics has failed already")
}
