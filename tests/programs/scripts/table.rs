// A map of 100 000 owned strings is overwritten five times; threads hand vectors over a channel to be freed elsewhere.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn main() {
    let mut map: HashMap<String, Vec<u8>> = HashMap::new();
    for round in 0..5 {
        for i in 0..100_000 {
            map.insert(format!("key{}", i), vec![round as u8; i % 300]);
        }
    }
    let (sender, receiver) = mpsc::channel::<Vec<u64>>();
    let makers: Vec<_> = (0..3)
        .map(|name| {
            let sender = sender.clone();
            thread::spawn(move || {
                for i in 0..20_000u64 {
                    sender.send(vec![name * i; 1 + (i % 60) as usize]).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut sum = 0u64;
    for numbers in receiver {
        sum = sum.wrapping_add(numbers.iter().sum::<u64>());
    }
    for maker in makers {
        maker.join().unwrap();
    }
    let ordered: BTreeMap<_, _> = map.iter().filter(|(_, v)| v.len() % 7 == 0).collect();
    println!("{} {} {}", map.len(), sum, ordered.keys().next().unwrap());
}
