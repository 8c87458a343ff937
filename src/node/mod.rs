//! The embedded node: the reference of one Redis node behind the Redis protocol on any byte stream.
