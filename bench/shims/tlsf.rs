//! malloc over TLSF behind one lock: the plain real-time allocator as it is usually put into a multi-threaded program.
//!
//! Every block is requested with the granule's alignment, because that is the form whose header the crate finds again
//! without being told the alignment. Pools of 64 MB come from mmap and are kept.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, NonNull};

type Heap = rlsf::Tlsf<'static, u64, u32, 40, 32>;

const POOL_BYTES: usize = 64 << 20;
const GRANULE: usize = 32;

extern "C" {
    fn mmap(at: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
}

/// A pthread mutex is valid when it is all zero.
#[repr(C, align(16))]
struct Shared {
    mutex: UnsafeCell<[u64; 8]>,
    heap: UnsafeCell<Heap>,
}
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared { mutex: UnsafeCell::new([0; 8]), heap: UnsafeCell::new(Heap::new()) };

fn locked<R>(work: impl FnOnce(&mut Heap) -> R) -> R {
    unsafe {
        pthread_mutex_lock(SHARED.mutex.get().cast());
        let result = work(&mut *SHARED.heap.get());
        pthread_mutex_unlock(SHARED.mutex.get().cast());
        result
    }
}

unsafe fn add_pool(heap: &mut Heap, least: usize) -> bool {
    let bytes = least.max(POOL_BYTES).next_multiple_of(4096);
    let at = mmap(null_mut(), bytes, 3, 0x22, -1, 0); // readable and writable; private and anonymous
    if at as isize == -1 {
        return false;
    }
    let pool = std::ptr::slice_from_raw_parts_mut(at.cast::<u8>(), bytes);
    heap.insert_free_block_ptr(NonNull::new_unchecked(pool)).is_some()
}

unsafe fn take(size: usize, align: usize) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(size.max(1), align.max(GRANULE)) else { return null_mut() };
    locked(|heap| {
        if let Some(block) = heap.allocate(layout) {
            return block.as_ptr().cast();
        }
        // Beside the block: alignment, headers, and what rounding up to a list's size may add.
        let Some(least) = size.checked_add(size / 16 + align + 8192) else { return null_mut() };
        if !add_pool(heap, least) {
            return null_mut();
        }
        heap.allocate(layout).map_or(null_mut(), |block| block.as_ptr().cast())
    })
}

#[no_mangle]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    take(size, GRANULE)
}

#[no_mangle]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast::<u8>()) {
        locked(|heap| heap.deallocate(block, GRANULE));
    }
}

#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return null_mut() };
    let block = take(bytes, GRANULE);
    if !block.is_null() {
        block.cast::<u8>().write_bytes(0, bytes);
    }
    block
}

#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    NonNull::new(block.cast::<u8>()).map_or(0, |block| Heap::allocation_usable_size(block))
}

#[no_mangle]
pub unsafe extern "C" fn realloc(old: *mut c_void, size: usize) -> *mut c_void {
    let Some(block) = NonNull::new(old.cast::<u8>()) else { return malloc(size) };
    let Ok(layout) = Layout::from_size_align(size.max(1), GRANULE) else { return null_mut() };
    if let Some(moved) = locked(|heap| heap.reallocate(block, layout)) {
        return moved.as_ptr().cast();
    }
    let fresh = malloc(size);
    if !fresh.is_null() {
        let kept = malloc_usable_size(old).min(size);
        fresh.cast::<u8>().copy_from_nonoverlapping(old.cast(), kept);
        free(old);
    }
    fresh
}

#[no_mangle]
pub unsafe extern "C" fn reallocarray(old: *mut c_void, count: usize, size: usize) -> *mut c_void {
    count.checked_mul(size).map_or(null_mut(), |bytes| realloc(old, bytes))
}

#[no_mangle]
pub unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    take(size, align)
}

#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    take(size, align)
}

#[no_mangle]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align % 8 != 0 {
        return 22; // EINVAL
    }
    *out = take(size, align);
    if (*out).is_null() { 12 } else { 0 }
}

#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    take(size, 4096)
}

#[no_mangle]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    take(size.next_multiple_of(4096), 4096)
}
