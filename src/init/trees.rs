//! The process trees of a container as its init tells of them, so that whoever stands at the agent's door can be told by
//! the runner that it is below.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use crate::wire::{ProcId, Tree};

/// The trees of one container.
#[derive(Debug, Default)]
pub struct Trees(watch::Sender<HashMap<ProcId, Tree>>);

impl Trees {
    /// Whether the processes of some tree are held to a run, or will be as soon as the init has started it.
    #[must_use]
    pub fn hold_any(&self) -> bool {
        self.0.borrow().values().any(|tree| tree.held_to.is_some())
    }

    /// The tree below a runner. Waits a while for the init to tell of it: what it starts may be faster than its word.
    pub async fn below(&self, runner: i32, patience: Duration) -> Option<Tree> {
        let of = |trees: &HashMap<ProcId, Tree>| trees.values().find(|tree| tree.runner == runner).copied();
        let mut trees = self.0.subscribe();
        let known = timeout(patience, trees.wait_for(|trees| of(trees).is_some())).await;
        known.ok()?.ok().and_then(|trees| of(&trees))
    }

    /// A tree will be asked for. Noted before it can exist, so that none of it comes unnoticed.
    pub(super) fn asked(&self, id: ProcId, held_to: Option<i64>) {
        if held_to.is_some() {
            self.forked(Tree { id, runner: 0, held_to });
        }
    }

    pub(super) fn forked(&self, tree: Tree) {
        self.0.send_modify(|trees| {
            trees.insert(tree.id, tree);
        });
    }

    /// All of it is dead, or it never was.
    pub(super) fn over(&self, id: ProcId) {
        self.0.send_if_modified(|trees| trees.remove(&id).is_some());
    }

    /// What an init that dialled in has, beside what it was asked for since.
    pub(super) fn told(&self, all: &[Tree], asked_now: &HashSet<ProcId>) {
        self.0.send_modify(|trees| {
            trees.retain(|id, _| asked_now.contains(id));
            trees.extend(all.iter().map(|tree| (tree.id, *tree)));
        });
    }

    pub(super) fn none(&self) {
        self.0.send_modify(HashMap::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tree_holds_from_before_it_is_started_until_it_is_over() {
        let trees = Trees::default();
        let held = Tree { id: 7, runner: 40, held_to: Some(3) };
        let free = Tree { id: 8, runner: 41, held_to: None };
        assert!(!trees.hold_any());
        trees.asked(held.id, held.held_to);
        assert!(trees.hold_any());
        assert_eq!(trees.below(held.runner, Duration::from_secs(1)).await, None, "nobody told of it");
        let (found, ()) = tokio::join!(trees.below(held.runner, Duration::from_secs(1)), async {
            trees.forked(held);
        });
        assert_eq!(found, Some(held));
        trees.forked(free);
        // Another link: what was asked for on it may not be among what its hello tells of.
        trees.asked(9, Some(4));
        trees.told(&[free], &[9].into());
        assert!(trees.hold_any());
        assert_eq!(trees.below(held.runner, Duration::ZERO).await, None, "it is gone");
        assert_eq!(trees.below(free.runner, Duration::ZERO).await, Some(free));
        trees.over(9);
        assert!(!trees.hold_any());
    }
}
