//! Closes what a bridge network leaves open: the host's own services on the gateway, the metadata
//! address, other networks of containers. Agents of one network are kept apart by the engine.
//!
//! Speaks to `iptables`, in rules marked with the hive's name; touches no other rule. IPv4 only: the
//! network has no IPv6, and the engine turns it off inside its containers, who cannot turn it on.

use std::{collections::BTreeSet, process::Stdio, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio::{process::Command, time::timeout};

use super::NetworkSpec;
use crate::ids::HiveName;

/// Every bridge that `NetworkSpec::internet` names begins so.
const BRIDGES: &str = "skep-";
const LIMIT: Duration = Duration::from_secs(20);

/// Why rules could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// There is no `iptables`.
    #[error("cannot run iptables: {0}; install it (apt-get install iptables)")]
    Missing(std::io::Error),
    /// It refused, mostly for want of root.
    #[error("iptables {rule}: {message}; the supervisor needs root (CAP_NET_ADMIN) for this")]
    Refused {
        /// The arguments.
        rule: String,
        /// Its own words.
        message: String,
    },
}

impl NetworkSpec {
    /// The network of a hive's agents with `network = "internet"`. An interface's name has 15 characters at
    /// most, so that the bridge's name is a hash.
    #[must_use]
    pub fn internet(hive: &HiveName) -> Self {
        let hash = hex::encode(Sha256::digest(hive.as_str().as_bytes()));
        Self {
            name: format!("skep-{hive}-internet"),
            bridge: format!("{BRIDGES}{}", &hash[..10]),
            labels: [("skep.hive".to_owned(), hive.to_string())].into(),
        }
    }
}

/// One rule: chain and what follows it.
struct Rule {
    chain: &'static str,
    matches: Vec<String>,
    /// For people: what it keeps agents from.
    what: &'static str,
}

fn rules(hive: &HiveName, bridge: &str) -> Vec<Rule> {
    let rule = |chain, what, extra: [&str; 2]| Rule {
        chain,
        what,
        matches: ["-i", bridge]
            .into_iter()
            .chain(extra.into_iter().filter(|e| !e.is_empty()))
            .chain(["-m", "comment", "--comment"])
            .map(str::to_owned)
            .chain([format!("skep:{hive}"), "-j".to_owned(), "REJECT".to_owned()])
            .collect(),
    };
    vec![
        rule("INPUT", "services of the host", ["", ""]),
        rule("DOCKER-USER", "link-local addresses (metadata services)", ["-d", "169.254.0.0/16"]),
        rule("DOCKER-USER", "the engine's default network", ["-o", "docker+"]),
        rule("DOCKER-USER", "other networks of containers", ["-o", "br-+"]),
        rule("DOCKER-USER", "other agents", ["-o", "skep-+"]),
    ]
}

/// Makes sure that every rule is there; adds only those that are not. To be called again after a restart of the
/// engine or of the host's firewall.
///
/// # Errors
/// When `iptables` is missing or refuses.
pub async fn ensure(hive: &HiveName, bridge: &str) -> Result<(), FirewallError> {
    for rule in rules(hive, bridge) {
        if !holds(&rule).await? {
            iptables("-I", rule.chain, &rule.matches).await?;
        }
    }
    Ok(())
}

/// What agents on this bridge are not kept from; empty when every rule is there.
///
/// # Errors
/// When `iptables` is missing or may not be asked.
pub async fn check(hive: &HiveName, bridge: &str) -> Result<Vec<String>, FirewallError> {
    let mut missing = BTreeSet::new();
    for rule in rules(hive, bridge) {
        if !holds(&rule).await? {
            missing.insert(format!(
                "agents with network \"internet\" can reach {} (no rule in chain {} for {bridge})",
                rule.what, rule.chain
            ));
        }
    }
    Ok(missing.into_iter().collect())
}

/// Removes the rules of a hive's bridge, each as often as it is there.
///
/// # Errors
/// When `iptables` is missing or refuses.
pub async fn remove(hive: &HiveName, bridge: &str) -> Result<(), FirewallError> {
    for rule in rules(hive, bridge) {
        while holds(&rule).await? {
            iptables("-D", rule.chain, &rule.matches).await?;
        }
    }
    Ok(())
}

async fn holds(rule: &Rule) -> Result<bool, FirewallError> {
    match iptables("-C", rule.chain, &rule.matches).await {
        Ok(()) => Ok(true),
        // A rule, a chain or a bridge that is not there; want of rights is an error.
        Err(FirewallError::Refused { message, .. }) if !message.contains("Permission denied") => Ok(false),
        Err(e) => Err(e),
    }
}

async fn iptables(verb: &str, chain: &str, matches: &[String]) -> Result<(), FirewallError> {
    let mut command = Command::new("iptables");
    // -w: wait for the lock that the engine takes too.
    command.args(["-w", "10", verb, chain]).args(matches);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let refused = |message: &str| FirewallError::Refused {
        rule: format!("{verb} {chain} {}", matches.join(" ")),
        message: message.trim().to_owned(),
    };
    let output = match timeout(LIMIT, command.output()).await {
        Ok(output) => output.map_err(FirewallError::Missing)?,
        Err(_) => return Err(refused("no answer")),
    };
    if output.status.success() { Ok(()) } else { Err(refused(&String::from_utf8_lossy(&output.stderr))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_name_fits_an_interface_and_differs_by_hive() {
        let long = "h".repeat(40).parse().unwrap();
        let (a, b) = (NetworkSpec::internet(&long), NetworkSpec::internet(&"demo".parse().unwrap()));
        assert_eq!(a.bridge.len(), 15);
        assert_ne!(a.bridge, b.bridge);
        assert_eq!(b.name, "skep-demo-internet");
    }

    #[test]
    fn every_rule_is_for_one_bridge_and_carries_the_hives_name() {
        for rule in rules(&"demo".parse().unwrap(), "skep-0123456789") {
            let text = rule.matches.join(" ");
            assert!(text.starts_with("-i skep-0123456789 "), "{text}");
            assert!(text.ends_with("--comment skep:demo -j REJECT"), "{text}");
        }
    }
}
