#[global_allocator]
static GLOBAL: mortise::Mortise = mortise::Mortise;

fn main() {
    println!("{} {}", mortise::Mortise::NAME, mortise::Mortise::live_bytes() > 0);
}

#[cfg(test)]
mod tests {
    use mortise::Mortise;
    use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
    use std::collections::{BTreeMap, HashMap};
    use std::sync::{mpsc, Arc, Mutex};

    #[test]
    fn blocks_hold_what_was_written() {
        for align in (0..14).map(|bit| 1usize << bit) {
            for size in [1, 7, 16, 100, 4096, 70_000, 3 << 20] {
                unsafe {
                    let layout = Layout::from_size_align(size, align).unwrap();
                    let mut block = alloc_zeroed(layout);
                    assert_eq!(block as usize % align, 0);
                    assert!(Mortise::usable_size(block) >= size);
                    assert!((0..size).all(|at| *block.add(at) == 0));
                    std::ptr::write_bytes(block, 0x5a, size);
                    block = realloc(block, layout, 2 * size);
                    assert_eq!(block as usize % align, 0);
                    assert!((0..size).all(|at| *block.add(at) == 0x5a));
                    dealloc(block, Layout::from_size_align(2 * size, align).unwrap());
                }
            }
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_null() {
        let layout = Layout::from_size_align(isize::MAX as usize - 4095, 8).unwrap();
        assert!(unsafe { alloc(layout) }.is_null());
    }

    #[test]
    fn live_bytes_follow_the_program() {
        let before = Mortise::live_bytes();
        let large = vec![1u8; 64 << 20];
        assert!(Mortise::live_bytes() >= before + large.len() / 2);
        assert!(Mortise::mapped_bytes() >= large.len());
    }

    #[test]
    fn collections_grow_and_shrink() {
        let mut words: HashMap<String, Vec<u32>> = HashMap::new();
        for n in 0..100_000u32 {
            words.entry(format!("word {}", n % 997)).or_default().push(n);
        }
        assert_eq!(words.values().map(Vec::len).sum::<usize>(), 100_000);
        let mut ordered: BTreeMap<_, _> = words.into_iter().collect();
        ordered.retain(|_, numbers| numbers[0] % 2 == 0);
        ordered.values_mut().for_each(Vec::shrink_to_fit);
        assert_eq!(ordered.len(), 499);
    }

    #[test]
    fn blocks_travel_between_threads() {
        let (sender, receiver) = mpsc::channel::<Box<[u64; 32]>>();
        let sum = Arc::new(Mutex::new(0u64));
        let makers: Vec<_> = (0..4u64)
            .map(|maker| {
                let sender = sender.clone();
                std::thread::spawn(move || (0..20_000).for_each(|n| sender.send(Box::new([maker + n; 32])).unwrap()))
            })
            .collect();
        drop(sender);
        let taker = {
            let sum = Arc::clone(&sum);
            std::thread::spawn(move || receiver.iter().for_each(|block| *sum.lock().unwrap() += block[31]))
        };
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        taker.join().unwrap();
        assert_eq!(*sum.lock().unwrap(), (0..4u64).map(|maker| (0..20_000).map(|n| maker + n).sum::<u64>()).sum());
    }
}
