//! The health report (systems.md A22): every six hours what `skep doctor` finds is compared with what it found before,
//! and a change is told.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{hive::Hive, types::Finding};
use crate::{
    db::{self, DbError},
    notify::{Notice, NoticeKind},
};

/// Between two reports.
const EVERY: SignedDuration = SignedDuration::from_hours(6);
/// How often it is looked whether one is due: the machine may have slept.
const LOOK: Duration = Duration::from_secs(60);
/// Where the last report is kept.
const KEY: &str = "health_report";
/// What a change is told as.
const EVENT: &str = "hive:health";

/// A report as it is kept: what is not `ok`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Report {
    at: Timestamp,
    faults: Vec<Fault>,
}

/// Something that is not as it should be. Its message may hold numbers that change all the time: it is not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Fault {
    check: String,
    level: String,
    message: String,
}

impl Fault {
    fn same(&self, other: &Self) -> bool {
        (&self.check, &self.level) == (&other.check, &other.level)
    }
}

/// Reports until the hive stops.
pub async fn run(hive: Arc<Hive>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = hive.stopping.cancelled() => return,
        }
        if let Err(e) = report_when_due(&hive).await {
            tracing::warn!(error = %e, "cannot report how the hive is");
        }
    }
}

/// Reports when the last report is six hours old, or there is none.
async fn report_when_due(hive: &Arc<Hive>) -> Result<(), DbError> {
    let now = hive.now();
    let last = last(hive).await?;
    // A last report in the future: the clock was set back.
    let due = last
        .as_ref()
        .is_none_or(|last| !(SignedDuration::ZERO..EVERY).contains(&now.duration_since(last.at)));
    if due { report(hive, last).await } else { Ok(()) }
}

async fn last(hive: &Hive) -> Result<Option<Report>, DbError> {
    let text = hive.db.read(|conn| db::meta::get(conn, KEY)).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Looks, compares, keeps and tells. The first report has nothing to be compared with.
async fn report(hive: &Arc<Hive>, last: Option<Report>) -> Result<(), DbError> {
    let (found, now) = (hive.doctor().await, hive.now());
    let report = Report { at: now, faults: faults(hive, found) };
    let kept = serde_json::to_string(&report).unwrap_or_default();
    let told = last.and_then(|last| changes(&last.faults, &report.faults));
    let notice = told.as_ref().map(|told| notice(hive, told, now));
    let targets = hive.targets();
    hive.db
        .write(move |tx| {
            db::meta::set(tx, KEY, &kept)?;
            if let (Some(told), Some(notice)) = (told, notice) {
                let data = json!({"new": told.new, "gone": told.gone, "faults": report.faults});
                db::events::append(tx, now, EVENT, &data)?;
                db::outbox::enqueue_all(tx, &targets, &notice, now)?;
            }
            Ok(())
        })
        .await
}

fn faults(hive: &Hive, found: Vec<Finding>) -> Vec<Fault> {
    let masker = hive.world().masker.clone();
    let not_ok = found.into_iter().filter(|finding| finding.level != "ok");
    let fault = |finding: Finding| Fault {
        check: finding.check,
        level: finding.level,
        message: masker.mask_str(&finding.message).into_owned(),
    };
    let mut faults: Vec<Fault> = not_ok.map(fault).collect();
    faults.sort();
    faults
}

/// What is new and what has gone since the last report.
#[derive(Debug, Clone, PartialEq)]
struct Changes {
    new: Vec<Fault>,
    gone: Vec<Fault>,
}

/// None: nothing changed.
fn changes(before: &[Fault], now: &[Fault]) -> Option<Changes> {
    let without = |these: &[Fault], those: &[Fault]| -> Vec<Fault> {
        these.iter().filter(|fault| !those.iter().any(|other| other.same(fault))).cloned().collect()
    };
    let changes = Changes { new: without(now, before), gone: without(before, now) };
    (!changes.new.is_empty() || !changes.gone.is_empty()).then_some(changes)
}

fn notice(hive: &Hive, changes: &Changes, now: Timestamp) -> Notice {
    let line =
        |sign: &str, fault: &Fault| format!("{sign} {} ({}): {}", fault.check, fault.level, fault.message);
    let new = changes.new.iter().map(|fault| line("new:", fault));
    let gone = changes.gone.iter().map(|fault| line("gone:", fault));
    let lines: Vec<String> = new.chain(gone).collect();
    let (status, title) = match changes.new.len() {
        0 => ("better", format!("{}: what was wrong is put right", hive.name)),
        1 => ("worse", format!("{}: something is wrong", hive.name)),
        n => ("worse", format!("{}: {n} things are wrong", hive.name)),
    };
    Notice::of_hive(NoticeKind::HiveHealth, hive.name.as_str(), status, title, lines.join("\n"), now)
}

impl Hive {
    /// The names of all targets of notices.
    pub(super) fn targets(&self) -> Vec<String> {
        self.world().config.notify.targets.iter().map(|target| target.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::setup::hive_with;

    fn fault(check: &str, level: &str, message: &str) -> Fault {
        Fault { check: check.into(), level: level.into(), message: message.into() }
    }

    #[test]
    fn a_check_that_gets_worse_or_better_is_a_change_and_another_message_is_none() {
        let before = [fault("space", "warning", "1 GiB is free"), fault("runc", "warning", "old")];
        assert_eq!(changes(&before, &before), None);
        let other = [fault("space", "warning", "0.9 GiB is free"), before[1].clone()];
        assert_eq!(changes(&before, &other), None);
        let worse = [fault("space", "error", "none"), before[1].clone()];
        let told = changes(&before, &worse).unwrap();
        assert_eq!((told.new.len(), told.gone.len()), (1, 1));
        assert_eq!(changes(&before, &before[1..]).unwrap().gone, before[..1]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_change_is_told_once_and_the_first_report_is_kept_silently() {
        let dir = tempfile::tempdir().unwrap();
        let config = "[hive]\nname = \"demo\"\n[[notify.webhook]]\nurl = \"https://hooks.example.com/x\"\n[agents.a]\n";
        let hive = hive_with(dir.path(), config).await;
        let told = async || {
            let read = |conn: &db::Conn| {
                Ok::<_, DbError>((db::events::named(conn, 0, Some(EVENT), 10)?, db::outbox::newest(conn)?))
            };
            hive.db.read(read).await.unwrap()
        };
        report_when_due(&hive).await.unwrap();
        let first = last(&hive).await.unwrap().unwrap();
        assert_eq!(told().await.0.len(), 0);
        // What was found six hours ago, with one fault more.
        let mut before = first.clone();
        before.faults.push(fault("engine", "error", "does not answer"));
        let keep = async |report: &Report| {
            let text = serde_json::to_string(report).unwrap();
            hive.db.write(move |tx| db::meta::set(tx, KEY, &text)).await.unwrap();
        };
        keep(&before).await;
        report_when_due(&hive).await.unwrap();
        assert_eq!(told().await.0.len(), 0, "it is not six hours old");
        before.at = first.at - SignedDuration::from_hours(6);
        keep(&before).await;
        report_when_due(&hive).await.unwrap();
        let (events, newest) = told().await;
        assert_eq!((events.len(), newest), (1, 1));
        assert_eq!(events[0].data["gone"][0]["check"], "engine");
        report_when_due(&hive).await.unwrap();
        assert_eq!(told().await.0.len(), 1);
    }
}
