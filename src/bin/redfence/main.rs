//! The `redfence` command line.

fn main() {}
