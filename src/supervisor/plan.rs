//! What to do next for one agent, from what is wanted and what is there.
//!
//! Pure: the whole decision in one function, so that every case can be read and tested.

use std::time::Duration;

use super::state::{Status, Wanted};

/// An init that stays away from a running container for so long is taken for dead.
pub const LINK_PATIENCE: Duration = Duration::from_secs(30);
/// While an init is away, its container is looked at this often: it may be about to end, and the event that
/// tells so may be lost.
pub const AWAY_LOOK: Duration = Duration::from_secs(1);

/// What is known of an agent when a plan is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// None: it is no longer in `skep.toml`.
    pub wanted: Option<Wanted>,
    /// Whether its specification could be made.
    pub prepared: Prepared,
    /// Its container, if there is one.
    pub container: Option<Seen>,
    /// Containers of this agent beside that one.
    pub strays: Vec<String>,
    /// A restart was asked for and not carried out yet.
    pub restart: bool,
    /// Time left before the next attempt after a failure.
    pub backoff: Option<Duration>,
    /// It uses more disk than it may.
    pub over_disk: bool,
}

/// State of an agent's specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// Not made yet for the present configuration.
    No,
    /// Cannot be made; the reason is kept beside.
    Impossible,
    /// Made, with this hash.
    Yes(String),
}

/// A container as seen in the listing, with what is known beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Engine's id.
    pub id: String,
    /// Its main process runs.
    pub running: bool,
    /// Frozen.
    pub paused: bool,
    /// `skep.spec` label.
    pub spec: Option<String>,
    /// Whether its real mounts, limits and capabilities were compared with the specification.
    pub verified: bool,
    /// Its init has other limits than it began with: processes of the agent's uid may lower them.
    pub crippled: bool,
    /// None while the init is connected, else how long it has been away.
    pub link_away: Option<Duration>,
}

/// What to do. Every step ends with another look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing until something happens.
    Rest(Status),
    /// Nothing for this long.
    Wait(Status, Duration),
    /// Make the specification.
    Prepare,
    /// Create and start a container.
    Start,
    /// Compare a running container with its specification and wait for its init.
    Adopt,
    /// Remove the container with this reason, then look again.
    Replace(String),
    /// The container ended by itself, or its init was crippled from inside: take note, remove it.
    Bury,
    /// Stop and remove the container.
    Stop,
    /// Remove containers that no agent owns.
    RemoveStrays(Vec<String>),
    /// Freeze it.
    Pause,
    /// Thaw it.
    Unpause,
    /// The agent left `skep.toml` and nothing of it runs.
    Forget,
}

/// The next step.
#[must_use]
pub fn plan(facts: &Facts) -> Step {
    if !facts.strays.is_empty() {
        return Step::RemoveStrays(facts.strays.clone());
    }
    match facts.wanted {
        None if facts.container.is_some() => Step::Stop,
        None => Step::Forget,
        Some(Wanted::Stopped) if facts.container.is_some() => Step::Stop,
        Some(Wanted::Stopped) => Step::Rest(Status::Stopped),
        Some(Wanted::Running) => plan_running(facts),
    }
}

fn plan_running(facts: &Facts) -> Step {
    let hash = match &facts.prepared {
        Prepared::No => return Step::Prepare,
        Prepared::Yes(hash) => Some(hash),
        // What runs goes on as it was: a fault in a new configuration must not take it down.
        Prepared::Impossible => None,
    };
    let Some(container) = &facts.container else {
        return match (hash, facts.backoff) {
            (_, Some(left)) => Step::Wait(Status::Failed, left),
            (None, None) => Step::Rest(Status::Failed),
            (Some(_), None) => Step::Start,
        };
    };
    if facts.restart {
        return Step::Replace("a restart was asked for".into());
    }
    if !container.running || container.crippled {
        return Step::Bury;
    }
    if let Some(hash) = hash
        && container.spec.as_ref() != Some(hash)
    {
        return Step::Replace("its specification changed".into());
    }
    match (container.paused, facts.over_disk) {
        (true, true) => return Step::Rest(Status::Paused),
        (true, false) => return Step::Unpause,
        (false, true) if container.verified => return Step::Pause,
        _ => {}
    }
    match container.link_away {
        Some(away) if away >= LINK_PATIENCE && hash.is_some() => {
            Step::Replace(format!("its init has been silent for {} s", away.as_secs()))
        }
        Some(_) if container.verified => Step::Wait(Status::Starting, AWAY_LOOK),
        None if container.verified => Step::Rest(Status::Running),
        _ if hash.is_some() => Step::Adopt,
        // Nothing to compare it with: it is left alone.
        None => Step::Rest(Status::Running),
        Some(_) => Step::Wait(Status::Starting, AWAY_LOOK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            wanted: Some(Wanted::Running),
            prepared: Prepared::Yes("h".into()),
            container: Some(Seen {
                id: "c".into(),
                running: true,
                paused: false,
                spec: Some("h".into()),
                verified: true,
                crippled: false,
                link_away: None,
            }),
            strays: vec![],
            restart: false,
            backoff: None,
            over_disk: false,
        }
    }

    fn with(change: impl FnOnce(&mut Facts)) -> Step {
        let mut facts = facts();
        change(&mut facts);
        plan(&facts)
    }

    fn container(change: impl FnOnce(&mut Seen)) -> Step {
        with(|f| change(f.container.as_mut().unwrap()))
    }

    #[test]
    fn an_agent_as_wanted_is_left_alone() {
        assert_eq!(plan(&facts()), Step::Rest(Status::Running));
    }

    #[test]
    fn a_wanted_agent_without_a_container_is_prepared_then_started() {
        assert_eq!(with(|f| (f.container, f.prepared) = (None, Prepared::No)), Step::Prepare);
        assert_eq!(with(|f| f.container = None), Step::Start);
    }

    #[test]
    fn an_init_that_was_crippled_from_inside_is_buried_and_counts_as_a_failure() {
        assert_eq!(container(|c| c.crippled = true), Step::Bury);
    }

    #[test]
    fn after_a_failure_it_waits_out_the_backoff_and_shows_failed() {
        let left = Duration::from_secs(4);
        assert_eq!(with(|f| (f.container, f.backoff) = (None, Some(left))), Step::Wait(Status::Failed, left));
    }

    #[test]
    fn an_impossible_configuration_starts_nothing_and_stops_nothing() {
        assert_eq!(
            with(|f| (f.container, f.prepared) = (None, Prepared::Impossible)),
            Step::Rest(Status::Failed)
        );
        assert_eq!(with(|f| f.prepared = Prepared::Impossible), Step::Rest(Status::Running));
    }

    #[test]
    fn a_running_container_that_nobody_checked_is_adopted_before_it_counts() {
        assert_eq!(container(|c| c.verified = false), Step::Adopt);
        assert_eq!(
            container(|c| (c.verified, c.link_away) = (false, Some(Duration::from_secs(1)))),
            Step::Adopt
        );
    }

    #[test]
    fn another_specification_means_another_container() {
        assert!(matches!(container(|c| c.spec = Some("old".into())), Step::Replace(_)));
        assert!(matches!(container(|c| c.spec = None), Step::Replace(_)));
        assert!(matches!(with(|f| f.restart = true), Step::Replace(_)));
    }

    #[test]
    fn a_container_that_ended_is_buried_whatever_its_specification() {
        assert_eq!(container(|c| (c.running, c.spec) = (false, Some("old".into()))), Step::Bury);
    }

    #[test]
    fn a_silent_init_is_waited_for_and_then_given_up() {
        let away = Duration::from_secs(10);
        assert_eq!(container(|c| c.link_away = Some(away)), Step::Wait(Status::Starting, AWAY_LOOK));
        assert!(matches!(container(|c| c.link_away = Some(LINK_PATIENCE)), Step::Replace(_)));
    }

    #[test]
    fn a_container_that_could_not_be_made_again_is_never_given_up() {
        for verified in [true, false] {
            let step = with(|f| {
                f.prepared = Prepared::Impossible;
                let container = f.container.as_mut().unwrap();
                (container.verified, container.link_away) = (verified, Some(LINK_PATIENCE * 2));
            });
            assert_eq!(step, Step::Wait(Status::Starting, AWAY_LOOK));
        }
    }

    #[test]
    fn too_much_disk_freezes_and_less_thaws() {
        assert_eq!(with(|f| f.over_disk = true), Step::Pause);
        let paused = |f: &mut Facts| {
            let seen = f.container.as_mut().unwrap();
            // A frozen init cannot answer; that is no reason to replace it.
            (seen.paused, seen.link_away) = (true, Some(LINK_PATIENCE * 2));
        };
        assert_eq!(
            with(|f| {
                paused(f);
                f.over_disk = true;
            }),
            Step::Rest(Status::Paused)
        );
        assert_eq!(with(paused), Step::Unpause);
    }

    #[test]
    fn what_is_stopped_or_gone_from_the_configuration_has_no_container() {
        assert_eq!(with(|f| f.wanted = Some(Wanted::Stopped)), Step::Stop);
        assert_eq!(
            with(|f| (f.wanted, f.container) = (Some(Wanted::Stopped), None)),
            Step::Rest(Status::Stopped)
        );
        assert_eq!(with(|f| f.wanted = None), Step::Stop);
        assert_eq!(with(|f| (f.wanted, f.container) = (None, None)), Step::Forget);
    }

    #[test]
    fn strays_go_first_so_that_no_agent_ever_has_two_containers() {
        assert_eq!(with(|f| f.strays = vec!["x".into()]), Step::RemoveStrays(vec!["x".into()]));
    }
}
