//! Fetching memory ahead of its use, which needs `unsafe`.

/// Asks the processor to bring the cache line at `address` near. A hint: it reads nothing,
/// changes nothing and cannot fail, whatever the address.
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
pub(crate) fn prefetch(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has SSE, and a prefetch of any address is harmless.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
}

/// Elsewhere there is no stable way to ask.
#[inline]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn prefetch(_address: usize) {}

/// [`prefetch`], of a line that is to be written: it comes as this core's own, and need not be asked
/// for a second time.
#[inline]
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
pub(crate) fn prefetch_to_write(address: usize) {
    // SAFETY: a prefetch of any address is harmless, and an x86-64 processor that does not know
    // this one takes it for a `nop`.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
}

#[inline]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn prefetch_to_write(_address: usize) {}
