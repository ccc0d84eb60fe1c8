//! Model values to text, JSON and pictures; the only room that knows a terminal.
