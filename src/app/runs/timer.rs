//! A timer by the wall clock: it wakes at the instant, and when somebody sets the clock.

use std::{fs::File, os::fd::OwnedFd, time::Duration};

use jiff::Timestamp;
use rustix::{
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use tokio::io::unix::AsyncFd;

/// The timer.
pub(super) struct WallTimer(AsyncFd<File>);

impl WallTimer {
    /// Not set yet.
    pub(super) fn new() -> std::io::Result<Self> {
        let fd: OwnedFd =
            timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: the file keeps its one descriptor until it is dropped with the `AsyncFd`.
        Ok(Self(unsafe { AsyncFd::register(File::from(fd)) }?))
    }

    /// Waits until `at`, at most `most`; true when the clock was set meanwhile.
    pub(super) async fn until(&self, at: Timestamp, most: Duration) -> bool {
        let latest = Timestamp::now().checked_add(most).unwrap_or(Timestamp::MAX);
        let at = at.min(latest).max(Timestamp::from_nanosecond(1).unwrap_or_default());
        let value = Timespec { tv_sec: at.as_second(), tv_nsec: at.subsec_nanosecond().max(0).into() };
        let new = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        if timerfd_settime(self.0.get_ref(), flags, &new).is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            return false;
        }
        loop {
            let Ok(mut guard) = self.0.readable().await else { return false };
            let mut ticks = [0; 8];
            match guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut ticks)?)) {
                Ok(Ok(_)) => return false,
                Ok(Err(e)) => return Errno::from_io_error(&e) == Some(Errno::CANCELED),
                Err(_) => {}
            }
        }
    }
}
