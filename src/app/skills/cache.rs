//! Views of skills, written once as JSON and kept until they would be another.
//!
//! A view follows from the skill's entry and from who uses it: while both are the same values, it holds.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;

use crate::{
    ids::SkillId,
    registry::{file::UsedBy, index::SkillEntry},
};

/// Views that are kept; above it all are dropped, and made again as they are asked for.
const MOST: usize = 8_192;

/// The views.
#[derive(Default)]
pub struct ViewCache {
    views: RwLock<HashMap<SkillId, Kept>>,
}

struct Kept {
    entry: Arc<SkillEntry>,
    used: Arc<UsedBy>,
    json: Bytes,
}

impl ViewCache {
    /// The view of a skill, made when it is not kept.
    pub(super) fn get(
        &self,
        entry: &Arc<SkillEntry>,
        used: &Arc<UsedBy>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        {
            let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = views.get(&entry.id)
                && Arc::ptr_eq(&kept.entry, entry)
                && Arc::ptr_eq(&kept.used, used)
            {
                return kept.json.clone();
            }
        }
        let json = Bytes::from(make());
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        if views.len() >= MOST {
            views.clear();
        }
        let kept = Kept { entry: entry.clone(), used: used.clone(), json: json.clone() };
        views.insert(entry.id.clone(), kept);
        json
    }
}
