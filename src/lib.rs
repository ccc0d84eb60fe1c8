//! The library behind the `kubectl cascade` plugin.
