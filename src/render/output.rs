//! Where output goes when nobody reads it any more.

use std::io;

/// Whoever pipes us into `head` has seen enough: a closed pipe is a success. Other errors stay errors.
pub fn closed_pipe_is_fine(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_pipe_is_fine() {
        let written = |kind: io::ErrorKind| closed_pipe_is_fine(Err(kind.into())).is_ok();
        assert!(written(io::ErrorKind::BrokenPipe));
        assert!(!written(io::ErrorKind::StorageFull));
        assert!(closed_pipe_is_fine(Ok(())).is_ok());
    }
}
