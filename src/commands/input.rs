//! Files that a user names, read whole, but never without end: a device or a pipe may have none.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// So much is read at most. Some 100,000 Pods as JSON are smaller.
const MOST_BYTES: u64 = 2 << 30;

/// The text of a file.
///
/// # Errors
/// It cannot be opened or read, is no UTF-8, or is too long.
pub fn read_file(path: &Path) -> io::Result<String> {
    read_text(File::open(path)?)
}

/// The text of whatever can be read, to its end.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is too long.
pub fn read_text(reader: impl Read) -> io::Result<String> {
    read_at_most(reader, MOST_BYTES)
}

fn read_at_most(reader: impl Read, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    reader.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {} MiB", limit >> 20),
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_to_the_limit_and_no_further() {
        let mut read = 0;
        let endless = io::repeat(b'a').chain(io::empty());
        let counting = Counting { inner: endless, read: &mut read };
        let error = read_at_most(counting, 3 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 3 MiB");
        assert_eq!(read, (3 << 20) + 1);
        assert_eq!(read_at_most(&b"abc"[..], 3).unwrap(), "abc");
        assert!(read_at_most(&b"a\xff"[..], 3).is_err(), "no UTF-8");
    }

    struct Counting<'a, R> {
        inner: R,
        read: &'a mut usize,
    }

    impl<R: Read> Read for Counting<'_, R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.inner.read(buffer)?;
            *self.read += count;
            Ok(count)
        }
    }
}
