//! The locks and atomics everything uses: parking_lot's, which spin a little before they sleep and
//! so keep the tail of a hot key short, or loom's when it explores every interleaving
//! (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(not(loom))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Some(guard) => guard,
        None => lock_when_free(mutex),
    }
}

/// How often a thread tries a lock before it goes to sleep, and how long it pauses in between: some
/// microseconds in all. Locks are held for nanoseconds, and for microseconds only while a table
/// grows; a thread that asks more often slows down the one that holds the lock.
#[cfg(not(loom))]
const TRIES: u32 = 32;
#[cfg(not(loom))]
const PAUSES: u32 = 4;

#[cfg(not(loom))]
#[cold]
fn lock_when_free<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..TRIES {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        if let Some(guard) = mutex.try_lock() {
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
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect("a model that panics has failed already")
}

#[cfg(loom)]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect("a model that panics has failed already")
}
