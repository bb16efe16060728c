//! What a thread may do by itself. Two agents that answer each other's answers stop here, whoever began.

/// Messages of agents in answer to mail, in one thread, before it waits for the operator (systems.md D14).
pub const MAX_AUTOMATIC: u32 = 10;
/// Messages that a sender may send in a minute.
pub const A_MINUTE: u32 = 30;
/// The same in a day.
pub const A_DAY: u32 = 2_000;
/// Bytes that a sender may attach in a day.
pub const FILES_A_DAY: u64 = 256 << 20;
/// Messages that may wait for one agent.
pub const MAX_WAITING: u32 = 500;

/// What is known of a message's past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Past {
    /// Messages of agents in answer to mail in its thread, since the operator's last word in it.
    pub in_thread: u32,
    /// Messages in a row, in whatever threads, each sent in answer to the one before.
    pub in_a_row: u32,
}

/// Why a message waits for the operator; none: it goes on.
#[must_use]
pub fn hold(automatic: bool, past: Past) -> Option<String> {
    if !automatic {
        return None;
    }
    if past.in_thread >= MAX_AUTOMATIC {
        let n = past.in_thread;
        return Some(format!("agents answered {n} times in this thread by themselves: the operator decides"));
    }
    (past.in_a_row > MAX_AUTOMATIC).then(|| {
        format!("it is the end of {} messages in a row that agents sent by themselves", past.in_a_row)
    })
}

/// Why a sender may send nothing more for now, and for how many seconds.
#[must_use]
pub fn too_much(in_a_minute: u32, in_a_day: u32, attached: u64) -> Option<(String, u64)> {
    if in_a_minute >= A_MINUTE {
        return Some((format!("{in_a_minute} messages within a minute; {A_MINUTE} are possible"), 60));
    }
    if in_a_day >= A_DAY {
        return Some((format!("{in_a_day} messages within a day; {A_DAY} are possible"), 3_600));
    }
    (attached > FILES_A_DAY).then(|| {
        let (mib, most) = (attached >> 20, FILES_A_DAY >> 20);
        (format!("{mib} MiB attached within a day; {most} are possible"), 3_600)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_answer_of_a_thread_waits_for_the_operator() {
        let past = |in_thread, in_a_row| Past { in_thread, in_a_row };
        assert_eq!(hold(true, past(9, 10)), None);
        assert!(hold(true, past(10, 10)).unwrap().contains("10 times"));
        assert_eq!(hold(false, past(50, 0)), None, "what somebody began is no answer");
        assert!(hold(true, past(0, 11)).is_some(), "a new thread for each answer is no way around it");
    }

    #[test]
    fn who_sends_too_much_waits() {
        assert_eq!(too_much(29, 0, 0), None);
        assert_eq!(too_much(30, 30, 0).unwrap().1, 60);
        assert_eq!(too_much(0, A_DAY, 0).unwrap().1, 3_600);
        assert!(too_much(0, 0, FILES_A_DAY + 1).is_some());
    }
}
