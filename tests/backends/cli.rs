//! The command line on etcd and ZooKeeper: a lock taken by one process, looked at and given back by others.

use std::process::Command;

use serde_json::Value;

use crate::service::{Kind, NAME, Service, on_both};
use crate::support::Live;

pub(crate) fn tests() -> Vec<Live> {
    on_both![a_lock_is_handed_from_command_to_command]
}

/// Runs `redfence`; the exit code and what it printed.
fn redfence(service: &Service, arguments: &[&str]) -> (Option<i32>, Value) {
    let at = format!("{}://{}", service.kind().name(), service.addresses().join(","));
    let mut command = Command::new(env!("CARGO_BIN_EXE_redfence"));
    command.env_remove("REDFENCE_NODES").env("REDFENCE_BACKEND", at).arg("--json").args(arguments);
    let output = command.output().expect("it runs");
    let printed = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), printed)
}

async fn a_lock_is_handed_from_command_to_command(kind: Kind) {
    let service = Service::start(kind, 1);
    let redfence = |arguments: &[&str]| redfence(&service, arguments);
    let (code, handle) = redfence(&["acquire", NAME, "--ttl", "4s", "--nowait"]);
    assert_eq!(code, Some(0), "{handle}");
    let owner = handle["owner"].as_str().expect("an owner").to_owned();
    assert!(handle["token"].as_u64().is_some_and(|token| token > 0), "{handle}");
    assert!(handle["validity_ms"].as_u64().is_some_and(|left| left > 1_000), "{handle}");
    // The process is gone; the lock stays.
    assert_eq!(redfence(&["acquire", NAME, "--ttl", "4s", "--nowait"]).0, Some(75));
    let (code, status) = redfence(&["status", NAME]);
    assert_eq!(
        (code, status["state"].as_str(), status["owner"].as_str()),
        (Some(0), Some("held"), Some(&*owner))
    );
    let extended = redfence(&["extend", NAME, "--owner", &owner, "--ttl", "4s"]).0;
    assert_eq!(extended, Some(if kind == Kind::Etcd { 0 } else { 2 }));
    assert_eq!(redfence(&["release", NAME, "--owner", &owner]).0, Some(0));
    assert_eq!(redfence(&["release", NAME, "--owner", &owner]).0, Some(79));
    assert_eq!(redfence(&["status", NAME]).1["state"].as_str(), Some("free"));
    assert_eq!(redfence(&["--nodes", "redis://a:1", "status", NAME]).0, Some(78));
}
