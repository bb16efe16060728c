//! A set of versions as bits over the positions of one skill's candidates.
//!
//! Positions rather than intervals, because "every release but no pre-release" is not a finite
//! union of intervals in semantic versioning's order. Knows nothing of versions themselves.

use std::fmt;

use pubgrub::VersionSet;

/// Positions below 64 are held inline; few skills have more versions than that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Positions {
    first: u64,
    /// Positions from 64 on; no trailing word that `rest` already says.
    more: Vec<u64>,
    /// Whether everything beyond `more` is in the set.
    rest: bool,
}

impl Positions {
    /// Adds one position to a finite set.
    pub(super) fn insert(&mut self, position: u32) {
        let (word, bit) = (position as usize / 64, 1u64 << (position % 64));
        if word == 0 {
            self.first |= bit;
            return;
        }
        if self.more.len() < word {
            let fill = self.fill();
            self.more.resize(word, fill);
        }
        self.more[word - 1] |= bit;
        self.trim();
    }

    /// How many of the first `count` positions are in the set.
    pub(super) fn count(&self, count: usize) -> u32 {
        let words = count.div_ceil(64);
        (0..words)
            .map(|w| {
                let used = (count - w * 64).min(64);
                let mask = if used == 64 { u64::MAX } else { (1 << used) - 1 };
                (self.word(w) & mask).count_ones()
            })
            .sum()
    }

    /// Whether no position at all is in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.first == 0 && self.more.is_empty() && !self.rest
    }

    fn fill(&self) -> u64 {
        if self.rest { u64::MAX } else { 0 }
    }

    fn word(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.first,
            Some(i) => self.more.get(i).copied().unwrap_or(self.fill()),
        }
    }

    fn trim(&mut self) {
        let fill = self.fill();
        while self.more.last() == Some(&fill) {
            self.more.pop();
        }
    }

    fn combine(&self, other: &Self, op: fn(u64, u64) -> u64, rest: bool) -> Self {
        let words = self.more.len().max(other.more.len());
        let mut set = Self {
            first: op(self.first, other.first),
            more: (1..=words).map(|w| op(self.word(w), other.word(w))).collect(),
            rest,
        };
        set.trim();
        set
    }
}

impl VersionSet for Positions {
    type V = u32;

    fn empty() -> Self {
        Self { first: 0, more: Vec::new(), rest: false }
    }

    fn full() -> Self {
        Self { first: u64::MAX, more: Vec::new(), rest: true }
    }

    fn singleton(position: u32) -> Self {
        let mut set = Self::empty();
        set.insert(position);
        set
    }

    fn complement(&self) -> Self {
        Self { first: !self.first, more: self.more.iter().map(|w| !w).collect(), rest: !self.rest }
    }

    fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & b, self.rest && other.rest)
    }

    fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a | b, self.rest || other.rest)
    }

    fn contains(&self, position: &u32) -> bool {
        self.word(*position as usize / 64) >> (position % 64) & 1 == 1
    }

    fn is_disjoint(&self, other: &Self) -> bool {
        let words = self.more.len().max(other.more.len());
        !(self.rest && other.rest) && (0..=words).all(|w| self.word(w) & other.word(w) == 0)
    }

    fn subset_of(&self, other: &Self) -> bool {
        let words = self.more.len().max(other.more.len());
        (!self.rest || other.rest) && (0..=words).all(|w| self.word(w) & !other.word(w) == 0)
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:b} {:?} {}", self.first, self.more, self.rest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn build(positions: &BTreeSet<u32>, inverted: bool) -> Positions {
        let mut set = Positions::empty();
        positions.iter().for_each(|p| set.insert(*p));
        if inverted { set.complement() } else { set }
    }

    proptest! {
        #[test]
        fn sets_of_positions_behave_as_sets(
            a in proptest::collection::btree_set(0u32..200, 0..12), ia: bool,
            b in proptest::collection::btree_set(0u32..200, 0..12), ib: bool,
        ) {
            let (x, y) = (build(&a, ia), build(&b, ib));
            for p in 0..260 {
                let (inx, iny) = (a.contains(&p) != ia, b.contains(&p) != ib);
                prop_assert_eq!(x.contains(&p), inx);
                prop_assert_eq!(x.intersection(&y).contains(&p), inx && iny);
                prop_assert_eq!(x.union(&y).contains(&p), inx || iny);
                prop_assert_eq!(x.complement().contains(&p), !inx);
            }
            prop_assert_eq!(x.complement().complement(), x.clone());
            prop_assert_eq!(x.union(&y), y.union(&x));
            prop_assert_eq!(x.is_disjoint(&y), x.intersection(&y).is_empty());
            prop_assert_eq!(x.subset_of(&y), x == x.intersection(&y));
            prop_assert_eq!(x.union(&x.complement()), Positions::full());
            prop_assert_eq!(x.count(100) as usize, (0..100).filter(|p| x.contains(p)).count());
        }
    }
}
