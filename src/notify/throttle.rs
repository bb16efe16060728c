//! How often the runs of one job may be told of (systems.md A14).
//!
//! Pure. It counts from the last notice, whatever its kind.

use jiff::Timestamp;

use super::message::NoticeKind;

/// Whether a notice of this kind is sent now: that a job was disabled always is.
#[must_use]
pub fn is_sent(
    kind: NoticeKind,
    last_notified_at: Option<Timestamp>,
    job_interval_minutes: u32,
    hive_interval_minutes: u32,
    now: Timestamp,
) -> bool {
    kind == NoticeKind::JobDisabled || due(last_notified_at, job_interval_minutes, hive_interval_minutes, now)
}

/// Whether the interval since the last notice of a job is over. A job's 0 stands for the hive's interval, and the
/// hive's 0 for none. A last notice in the future (the clock was set back) holds nothing up.
#[must_use]
pub fn due(
    last_notified_at: Option<Timestamp>,
    job_interval_minutes: u32,
    hive_interval_minutes: u32,
    now: Timestamp,
) -> bool {
    let minutes = if job_interval_minutes == 0 { hive_interval_minutes } else { job_interval_minutes };
    last_notified_at.is_none_or(|last| {
        let elapsed = now.duration_since(last);
        elapsed.is_negative() || elapsed.as_secs() >= i64::from(minutes) * 60
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_of_a_job_keep_their_interval() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        #[rustfmt::skip]
        let cases = [
            (None,     0,  0,   0, true,  "the first"),
            (None,     60, 60,  0, true,  "the first, however long the interval"),
            (Some(0),  0,  0,   0, true,  "no interval at all"),
            (Some(0),  10, 0, 599, false, "a second early"),
            (Some(0),  10, 0, 600, true,  "just in time"),
            (Some(0),  0, 10, 599, false, "the hive's interval, a second early"),
            (Some(0),  0, 10, 600, true,  "the hive's interval"),
            (Some(0),  5, 60, 300, true,  "the job's goes before a longer one of the hive"),
            (Some(0),  60, 5, 300, false, "and before a shorter one"),
            (Some(99), 10, 0,   0, true,  "the clock was set back"),
            (Some(0),  u32::MAX, 0, 1_000_000, false, "thousands of years"),
        ];
        for (last, job, hive, now, sent, what) in cases {
            assert_eq!(due(last.map(at), job, hive, at(now)), sent, "{what}");
            for kind in [NoticeKind::RunFailed, NoticeKind::RunSucceeded] {
                assert_eq!(is_sent(kind, last.map(at), job, hive, at(now)), sent, "{what}");
            }
            assert!(is_sent(NoticeKind::JobDisabled, last.map(at), job, hive, at(now)), "{what}");
        }
    }
}
