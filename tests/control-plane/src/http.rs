//! Just enough HTTP/1.1 for a webhook and for asking the API server: one message at a time, bodies by length or in
//! chunks.

use std::io::{self, BufRead, Read as _};

/// The largest body we take, in bytes; an AdmissionReview carries two objects of at most 3 MiB each.
const LARGEST_BODY: usize = 64 << 20;

/// A request or a response.
pub(crate) struct Message {
    /// The request line or the status line.
    pub(crate) first_line: String,
    /// The headers, by lower-case name.
    pub(crate) headers: Vec<(String, String)>,
    /// The decoded body.
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The value of a header, by lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }
}

/// Reads one message; `None` when the other side closed the connection between messages.
pub(crate) fn read_message(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    let first_line = read_line(from)?;
    if first_line.is_empty() {
        return Ok(None);
    }
    let mut message = Message { first_line, headers: Vec::new(), body: Vec::new() };
    loop {
        let line = read_line(from)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
        message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if message.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        message.body = read_chunks(from)?;
    } else if let Some(length) = message.header("content-length") {
        let length = length.parse().map_err(|_| malformed("Content-Length is not a number"))?;
        read_exactly(from, length, &mut message.body)?;
    }
    Ok(Some(message))
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| malformed("a chunk without a size"))?;
        if size == 0 {
            // Trailers, if any, end with an empty line.
            while !read_line(from)?.is_empty() {}
            return Ok(body);
        }
        read_exactly(from, size, &mut body)?;
        read_line(from)?;
    }
}

fn read_exactly(from: &mut impl BufRead, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
    if into.len().saturating_add(length) > LARGEST_BODY {
        return Err(malformed("the body is too large"));
    }
    let read = from.take(length as u64).read_to_end(into)?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// One line without its end; empty at the end of the stream, too.
pub(crate) fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(64 << 10).read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP/1.1: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Option<Message>> {
        read_message(&mut text.as_bytes())
    }

    #[test]
    fn two_messages_on_one_connection_are_told_apart() {
        let text = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiPOST /b HTTP/1.1\r\n\r\n";
        let mut from = text.as_bytes();
        let first = read_message(&mut from).unwrap().unwrap();
        assert_eq!((first.first_line.as_str(), first.body.as_slice()), ("POST /a HTTP/1.1", &b"hi"[..]));
        let second = read_message(&mut from).unwrap().unwrap();
        assert_eq!((second.first_line.as_str(), second.body.len()), ("POST /b HTTP/1.1", 0));
        assert!(read_message(&mut from).unwrap().is_none());
    }

    #[test]
    fn chunks_are_joined() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n";
        assert_eq!(read(text).unwrap().unwrap().body, b"abcde");
    }

    #[test]
    fn a_body_that_ends_early_is_an_error() {
        assert!(read("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort").is_err());
        assert!(read("POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n").is_err());
    }
}
