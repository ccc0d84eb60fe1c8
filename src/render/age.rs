//! Times as kubectl shows them.

use crate::model::object::Timestamp;

/// The time since `then`, as kubectl's AGE column has it; `<unknown>` where there is none.
pub(super) fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    let Some(then) = then else { return "<unknown>".to_owned() };
    let seconds = now.as_second() - then.as_second();
    // The clocks of two machines differ a little.
    if seconds < -1 { "<invalid>".to_owned() } else { duration(seconds.max(0).unsigned_abs()) }
}

/// A duration in seconds as kubectl words it: two units at most, the smaller one only while it tells something
/// (as `apimachinery/pkg/util/duration`, HumanDuration).
pub(super) fn duration(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let two = |large: u64, large_name: char, small: u64, small_name: char| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        if rest == 0 {
            format!("{whole}{large_name}")
        } else {
            format!("{whole}{large_name}{rest}{small_name}")
        }
    };
    match seconds {
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, 'm', 1, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, 'h', MINUTE, 'm'),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::timestamp;

    #[test]
    fn durations_read_as_in_kubectl() {
        const HOUR: u64 = 3600;
        const DAY: u64 = 24 * HOUR;
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 600, "7h10m"),
            (8 * HOUR + 600, "8h"),
            (47 * HOUR, "47h"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (800 * DAY, "2y70d"),
            (8 * 365 * DAY + DAY, "8y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn an_age_from_the_future_is_invalid_but_for_a_second_between_clocks() {
        let now = timestamp("2026-01-02T00:00:00Z");
        assert_eq!(age(Some(timestamp("2026-01-01T00:00:00Z")), now), "24h");
        assert_eq!(age(Some(timestamp("2026-01-02T00:00:01Z")), now), "0s");
        assert_eq!(age(Some(timestamp("2026-01-02T00:00:02Z")), now), "<invalid>");
        assert_eq!(age(None, now), "<unknown>");
    }
}
