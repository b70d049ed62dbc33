//! The locks and atomics everything uses: parking_lot's and the standard library's, or loom's when
//! it explores every interleaving (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
mod brief;

/// A lock that is held for nanoseconds.
#[cfg(not(loom))]
pub(crate) type SpinMutex<T> = parking_lot::lock_api::Mutex<brief::SpinLock, T>;
#[cfg(not(loom))]
pub(crate) type SpinGuard<'a, T> = parking_lot::lock_api::MutexGuard<'a, brief::SpinLock, T>;

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex as SpinMutex, MutexGuard as SpinGuard};

#[cfg(not(loom))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn lock_briefly<T>(mutex: &SpinMutex<T>) -> SpinGuard<'_, T> {
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
pub(crate) use self::lock as lock_briefly;

#[cfg(loom)]
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect("a model that panics has failed already")
}

#[cfg(loom)]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect("a model that panics has failed already")
}
