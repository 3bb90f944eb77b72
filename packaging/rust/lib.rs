#![doc = include_str!("README.md")]
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

mod native {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

/// Every block is aligned to this much without being asked.
const ALIGN_MIN: usize = 16;

/// The allocator that the crate's feature names, as a program's global allocator. All values are one and the same heap, beside
/// the `malloc` of C code in the program. Thread-safe; survives `fork`; a block may be released by any thread.
#[derive(Debug, Default, Clone, Copy)]
pub struct Mortise;

// SAFETY: blocks are disjoint, at least as large and as aligned as asked, and stay where they are until they are released;
// no function unwinds or calls the global allocator.
unsafe impl GlobalAlloc for Mortise {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN_MIN {
            native::malloc(layout.size())
        } else {
            native::aligned_alloc(layout.align(), layout.size())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        native::free(block)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN_MIN {
            return native::calloc(1, layout.size());
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGN_MIN {
            return native::realloc(block, size);
        }
        let fresh = native::aligned_alloc(layout.align(), size);
        if !fresh.is_null() {
            ptr::copy_nonoverlapping(block, fresh, layout.size().min(size));
            native::free(block);
        }
        fresh
    }
}

impl Mortise {
    /// Which allocator this is: the crate's feature, such as `hslab`.
    pub const NAME: &'static str = native::NAME;

    /// Bytes in blocks that the program holds, rounded up to their size classes. A moment's view while other threads allocate.
    pub fn live_bytes() -> usize {
        unsafe { native::live_bytes() }
    }

    /// Bytes of address space taken from the system.
    pub fn mapped_bytes() -> usize {
        unsafe { native::mapped_bytes() }
    }

    /// Gives back to the system what is kept for later; the bytes. Idle memory goes back by itself as well.
    pub fn trim() -> usize {
        unsafe { native::trim() }
    }

    /// What a block really holds, at least what was asked for.
    ///
    /// # Safety
    /// `block` was allocated by this allocator and was not released yet.
    pub unsafe fn usable_size(block: *mut u8) -> usize {
        native::usable_size(block)
    }
}
