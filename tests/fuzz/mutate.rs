//! Mutating seeds, and running a target on what comes of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// Inputs of a run within the tests.
const INPUTS: usize = 1_500;
/// Bytes of an input.
const LONGEST: usize = 64 << 10;

/// Numbers without a pattern (SplitMix64), the same for the same beginning.
pub struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`; 0 when there is nothing below.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap() % end.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const BYTES: &[u8] = b"\0\n\r\t\"'{}[]:,&*#-|>!%@`\\/ 09azAZ\x1b\x7f\x80\xc0\xef\xff";

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str], numbers: &mut Numbers) {
    let at = numbers.below(input.len() + 1);
    let end = at + numbers.below((input.len() - at).min(64) + 1);
    match numbers.below(10) {
        0 if at < input.len() => input[at] ^= 1 << numbers.below(8),
        1 if at < input.len() => input[at] = BYTES[numbers.below(BYTES.len())],
        2 => drop(input.drain(at..end)),
        3 => {
            let part = input[at..end].to_vec();
            let most = if numbers.below(20) == 0 { 400 } else { 4 };
            let times = 1 + numbers.below(most);
            input.splice(at..at, part.repeat(times));
        }
        4 => input.truncate(at),
        5 => {
            let other = &seeds[numbers.below(seeds.len())];
            let from = numbers.below(other.len() + 1);
            let part = other[from..].iter().copied().take(numbers.below(400)).collect::<Vec<_>>();
            input.splice(at..end, part);
        }
        6 => {
            // Lines change places.
            let mut lines: Vec<&[u8]> = input.split_inclusive(|b| *b == b'\n').collect();
            let (a, b) = (numbers.below(lines.len()), numbers.below(lines.len()));
            if !lines.is_empty() {
                lines.swap(a, b);
            }
            *input = lines.concat();
        }
        _ => {
            let word = numbers.pick(words).as_bytes().to_vec();
            let end = if numbers.below(2) == 0 { at } else { end };
            input.splice(at..end, word);
        }
    }
    input.truncate(LONGEST);
}

/// Runs a target on mutations of the seeds, and on the seeds themselves.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], words: &[&str], target: impl Fn(&[u8])) {
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let longer = std::env::var("SKEP_FUZZ_SECONDS").ok().map(|s| Duration::from_secs(s.parse().unwrap()));
    let beginning = longer.map_or(1, |_| u64::from(std::process::id()));
    let mut numbers = Numbers(beginning);
    let start = Instant::now();
    let (mut ran, mut slowest) = (0, (Duration::ZERO, Vec::new()));
    for seed in seeds {
        target(seed);
    }
    while longer.map_or(ran < INPUTS, |limit| start.elapsed() < limit) {
        let mut input = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..=numbers.below(8) {
            change(&mut input, seeds, words, &mut numbers);
        }
        let began = Instant::now();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            eprintln!("{name}: input {ran} from {beginning} broke it: \"{}\"", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
        if began.elapsed() > slowest.0 {
            slowest = (began.elapsed(), input);
        }
        ran += 1;
    }
    let (took, input) = slowest;
    println!("{name}: {ran} inputs from {beginning}; the slowest took {took:?} for {} bytes", input.len());
    if took > Duration::from_secs(2) {
        let head = &input[..input.len().min(300)];
        println!("{name}: it begins \"{}\"", head.escape_ascii());
    }
}
