//! Points at which tests kill the supervisor, as `kill -9` would. Without the feature `failpoints` there are none.

/// Marks a point. The fault tests name it; nothing happens otherwise.
#[macro_export]
macro_rules! kill_point {
    ($name:literal) => {
        fail::fail_point!($name)
    };
}

/// Arms points: `name:count`, separated by `;`. The process kills itself when it comes to the point for the
/// `count`th time.
///
/// # Panics
/// When it is not written so: only tests write it.
#[cfg(feature = "failpoints")]
pub fn arm(points: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    for point in points.split(';').filter(|point| !point.is_empty()) {
        let (name, count) = point.split_once(':').unwrap_or((point, "1"));
        let left = AtomicU32::new(count.parse().expect("SKEP_KILL_AT is name:count"));
        let hit = move || {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap_or_default();
                std::thread::sleep(std::time::Duration::from_secs(60));
            }
        };
        fail::cfg_callback(name, hit).expect("a callback is always accepted");
    }
}
