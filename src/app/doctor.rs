//! placeholder
use super::{Hive, types::Finding};
impl Hive {
    /// x
    pub async fn doctor(&self) -> Vec<Finding> {
        Vec::new()
    }
}
