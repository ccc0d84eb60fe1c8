//! Durations as kubectl's flags take them: Go's `1m30s`, `1.5h`, `-1s`, a bare `0`
//! (`time.ParseDuration`, go/src/time/format.go). The arithmetic is Go's own, so that the same texts are out of range.

use std::fmt;
use std::time::Duration;

/// A signed time span of at most some 292 years, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    nanoseconds: i64,
}

/// Why a text is no duration; reads as Go's own error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// Not a sequence of numbers and units, or out of range.
    Invalid(String),
    /// A number without a unit, other than a bare 0.
    MissingUnit(String),
    /// A unit that Go does not know, and the whole text.
    UnknownUnit(String, String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => write!(formatter, "invalid duration {text:?}"),
            Self::MissingUnit(text) => write!(formatter, "missing unit in duration {text:?}"),
            Self::UnknownUnit(unit, text) => write!(formatter, "unknown unit {unit:?} in duration {text:?}"),
        }
    }
}

impl std::error::Error for DurationError {}

/// The first magnitude that no longer fits (the smallest negative one still does).
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// Reads a duration.
    ///
    /// # Errors
    /// What `time.ParseDuration` refuses: no number, no unit, a unit other than ns, us, ms, s, m and h, out of range.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self { nanoseconds: 0 });
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after_whole) = split_digits(rest);
            let (fraction, after) = match after_whole.strip_prefix('.') {
                Some(after_point) => split_digits(after_point),
                None => ("", after_whole),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(end);
            let size: u64 = match unit {
                "" => return Err(DurationError::MissingUnit(text.to_owned())),
                "ns" => 1,
                // The micro sign, and the Greek letter mu.
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(DurationError::UnknownUnit(unit.to_owned(), text.to_owned())),
            };
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
            total = whole
                .checked_mul(size)
                .and_then(|value| value.checked_add(part_of(fraction, size)))
                .and_then(|value| total.checked_add(value))
                .filter(|sum| *sum <= LIMIT)
                .ok_or_else(invalid)?;
            rest = next;
        }
        let nanoseconds = if negative {
            0i64.checked_sub_unsigned(total).ok_or_else(invalid)?
        } else {
            i64::try_from(total).map_err(|_| invalid())?
        };
        Ok(Self { nanoseconds })
    }

    /// So many whole seconds; at most Go's range.
    pub fn from_seconds(seconds: i64) -> Self {
        Self { nanoseconds: seconds.saturating_mul(1_000_000_000) }
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanoseconds < 0
    }

    /// The span as a time limit: `None`, no limit, for zero and below.
    pub fn limit(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0).map(Duration::from_nanos)
    }

    /// The span, zero where it is negative.
    pub fn or_zero(self) -> Duration {
        self.limit().unwrap_or_default()
    }
}

/// Splits leading ASCII digits off.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The decimal fraction `0.<digits>` of a unit, rounded down. Digits beyond the 18th cannot change it by more than
/// a nanosecond.
fn part_of(digits: &str, size: u64) -> u64 {
    let digits = &digits[..digits.len().min(18)];
    let Ok(value) = digits.parse::<u128>() else { return 0 };
    let scale = 10u128.pow(u32::try_from(digits.len()).unwrap_or(18));
    u64::try_from(value * u128::from(size) / scale).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanoseconds(text: &str) -> Result<i64, String> {
        GoDuration::parse(text).map(|duration| duration.nanoseconds).map_err(|error| error.to_string())
    }

    #[test]
    fn what_go_reads_is_read_the_same() {
        const SECOND: i64 = 1_000_000_000;
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("5s", 5 * SECOND),
            ("1m30s", 90 * SECOND),
            ("1.5h", 5400 * SECOND),
            (".5s", SECOND / 2),
            ("5.s", 5 * SECOND),
            ("+5s", 5 * SECOND),
            ("-1.5h", -5400 * SECOND),
            ("100ms", SECOND / 10),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("1h1m1s1ms1us1ns", 3661 * SECOND + 1_001_001),
            ("0.100000000000000000000h", 360 * SECOND),
            ("0.9223372036854775807h", 3_320_413_933_267),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(nanoseconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_with_its_words() {
        for (text, expected) in [
            ("", r#"invalid duration """#),
            ("-", r#"invalid duration "-""#),
            ("30", r#"missing unit in duration "30""#),
            ("1m30", r#"missing unit in duration "1m30""#),
            ("1d", r#"unknown unit "d" in duration "1d""#),
            ("abc", r#"invalid duration "abc""#),
            (".s", r#"invalid duration ".s""#),
            ("5 s", r#"unknown unit " s" in duration "5 s""#),
            ("--5s", r#"invalid duration "--5s""#),
            ("9223372036854775808ns", r#"invalid duration "9223372036854775808ns""#),
        ] {
            assert_eq!(nanoseconds(text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_number_beyond_any_range_is_an_error_and_no_panic() {
        let huge = format!("{}h", "9".repeat(4000));
        for text in ["99999999999999999999h", "3000000h", "18446744073709551615ns", huge.as_str()] {
            assert!(nanoseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zero_and_less_are_no_limit() {
        assert_eq!(GoDuration::parse("0").unwrap().limit(), None);
        assert_eq!(GoDuration::parse("-5s").unwrap().limit(), None);
        assert_eq!(GoDuration::parse("5s").unwrap().limit(), Some(Duration::from_secs(5)));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_refused_with_its_own_words(
            text in "\\PC{0,12}|[+-]?([0-9]{0,25}\\.?[0-9]{0,25}(ns|us|\u{b5}s|ms|s|m|h|d)?){0,4}"
        ) {
            match GoDuration::parse(&text) {
                Ok(duration) => prop_assert_eq!(duration.is_negative(), duration.nanoseconds < 0),
                Err(error) => prop_assert!(error.to_string().contains("duration")),
            }
        }

        #[test]
        fn what_is_written_in_nanoseconds_is_read_back(nanoseconds: i64) {
            prop_assert_eq!(GoDuration::parse(&format!("{nanoseconds}ns")), Ok(GoDuration { nanoseconds }));
        }
    }
}
