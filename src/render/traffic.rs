//! What passed between us and the API server, a line each (`-v`).

use std::io;

use super::counts::number;
use super::look::{Look, Role};
use super::text::Line;
use crate::model::traffic::{Ended, Traffic};

/// `GET /api/v1/pods?limit=1: 200, 12 ms, 3,456 bytes`.
pub fn write_traffic(out: &mut impl io::Write, look: Look, traffic: &Traffic) -> io::Result<()> {
    let text = match traffic {
        Traffic::Request { method, path, end, took } => {
            let took = took.as_millis();
            match end {
                Ended::Answered { status, bytes } => {
                    format!("{method} {path}: {status}, {took} ms, {}", number(*bytes, "byte"))
                }
                Ended::Open { status } => format!("{method} {path}: {status}, {took} ms, stays open"),
                Ended::NoAnswer => format!("{method} {path}: no answer, {took} ms"),
            }
        }
        Traffic::Again { method, path, pause } => {
            format!("{method} {path}: once more in {} ms", pause.as_millis())
        }
    };
    Line::new().styled(Role::Dim, text).write(out, look)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::text::written;
    use super::*;

    #[test]
    fn a_request_is_one_line_and_so_is_a_pause() {
        let request = |end| Traffic::Request {
            method: "GET".to_owned(),
            path: "/api/v1/pods?a=\u{1b}".to_owned(),
            end,
            took: Duration::from_millis(12),
        };
        let again = Traffic::Again {
            method: "GET".to_owned(),
            path: "/api".to_owned(),
            pause: Duration::from_secs(2),
        };
        let events = [
            request(Ended::Answered { status: 200, bytes: 3456 }),
            request(Ended::Open { status: 200 }),
            request(Ended::NoAnswer),
            again,
        ];
        let text = written(|out| events.iter().try_for_each(|event| write_traffic(out, Look::PLAIN, event)));
        assert_eq!(
            text,
            "GET /api/v1/pods?a=\\u{1b}: 200, 12 ms, 3,456 bytes\n\
             GET /api/v1/pods?a=\\u{1b}: 200, 12 ms, stays open\n\
             GET /api/v1/pods?a=\\u{1b}: no answer, 12 ms\n\
             GET /api: once more in 2000 ms\n"
        );
    }
}
