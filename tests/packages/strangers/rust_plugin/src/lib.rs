#[global_allocator]
static GLOBAL: mortise::Mortise = mortise::Mortise;

#[no_mangle]
pub extern "C" fn work() -> usize {
    (0..1000).map(|n| vec![1u8; n]).collect::<Vec<_>>().iter().map(Vec::len).sum()
}
