//! Whether an image's Node.js is new enough for an agent's skills (systems.md D4, D11).
//!
//! Compares only; who finds out the image's version is elsewhere.

use semver::{Prerelease, Version, VersionReq};

use crate::ids::SkillId;

/// One sentence for each skill that the given Node.js does not suit, naming who asked and both
/// versions. `skills` are the resolved skills that state a `nodeVersion`. A nightly or release
/// candidate of Node.js counts as the release it leads to.
#[must_use]
pub fn check_node<'a>(
    skills: impl IntoIterator<Item = (&'a SkillId, &'a Version, &'a VersionReq)>,
    node: &Version,
) -> Vec<String> {
    let release = Version { pre: Prerelease::EMPTY, ..node.clone() };
    skills
        .into_iter()
        .filter(|(_, _, wanted)| !wanted.matches(&release))
        .map(|(id, version, wanted)| {
            format!(
                "{id}@{version} needs Node.js {wanted}, but the agent's image has {node}; use an image with another Node.js, or a version of {id} that runs on {node}"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: &str, node: &str) -> Vec<String> {
        let id: SkillId = "charts".parse().unwrap();
        let wanted = VersionReq::parse(wanted).unwrap();
        let version = Version::new(1, 2, 0);
        check_node([(&id, &version, &wanted)], &Version::parse(node).unwrap())
    }

    #[test]
    fn too_old_a_node_is_told_with_both_versions_and_who_asked() {
        assert_eq!(
            check(">=22.0.0", "20.11.1"),
            [
                "charts@1.2.0 needs Node.js >=22.0.0, but the agent's image has 20.11.1; use an image with another Node.js, or a version of charts that runs on 20.11.1"
            ]
        );
    }

    #[test]
    fn a_node_within_the_range_is_silent_nightlies_included() {
        assert!(check(">=22.0.0", "24.1.0").is_empty());
        assert!(check(">=22.0.0", "25.0.0-nightly.1").is_empty());
        assert_eq!(check("<25", "25.0.0-nightly.1").len(), 1);
    }
}
