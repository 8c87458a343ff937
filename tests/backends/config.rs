//! What cannot work is told before anything is asked.

use std::time::Duration;

use redfence::DistributedLock;
use redfence::lock::error::{AcquireError, ConfigError};
use redfence::lock::{LockBuilder, Mode};

use crate::service::{Kind, NAME, ms};
use crate::support::{Live, live_tests};

pub(crate) fn tests() -> Vec<Live> {
    let anywhere = live_tests![
        current_thread:
            one_lock_has_one_back_end,
            a_back_end_that_is_not_in_the_build_is_named_with_its_feature;
    ];
    let anywhere = anywhere.into_iter().map(|test| test.needing(|| Ok(())));
    anywhere.chain(crate::service::on_both![bad_settings_are_typed_errors_and_ask_nobody]).collect()
}

fn refused(builder: LockBuilder) -> ConfigError {
    builder.build().map(|_| ()).expect_err("a mistake")
}

async fn one_lock_has_one_back_end() {
    let builder = DistributedLock::builder;
    assert_eq!(refused(builder()), ConfigError::NoNodes);
    let nodes = ["redis://a:1", "redis://b:1", "redis://c:1"];
    let both = refused(builder().nodes(nodes).etcd(["http://a:1"]));
    assert!(matches!(both, ConfigError::SeveralBackends { .. }), "{both}");
    let both = refused(builder().etcd(["http://a:1"]).zookeeper("a:1"));
    assert_eq!(both.to_string(), "one lock has one back end, but etcd and ZooKeeper are given");
    let redlock = builder().nodes(nodes).build().expect("a lock");
    assert_eq!(redlock.backend_name(), "redlock");
    let capabilities = redlock.capabilities();
    assert!(!capabilities.fair && !capabilities.native_token && !capabilities.fixed_ttl);
    assert!(capabilities.min_ttl < ms(10) && capabilities.extend_by_owner);
}

async fn a_back_end_that_is_not_in_the_build_is_named_with_its_feature() {
    let builder = DistributedLock::builder;
    let given = [
        (cfg!(feature = "etcd"), "etcd", builder().etcd(["http://127.0.0.1:1"])),
        (cfg!(feature = "zookeeper"), "zookeeper", builder().zookeeper("127.0.0.1:1")),
    ];
    for (is_in, name, builder) in given {
        match builder.build() {
            Ok(locks) => assert!(is_in && locks.backend_name() == name, "{name}"),
            Err(error) => {
                assert!(!is_in && matches!(error, ConfigError::NotCompiled { .. }), "{error}");
                assert!(error.to_string().contains(&format!("cargo feature {name:?}")), "{error}");
            }
        }
    }
}

async fn bad_settings_are_typed_errors_and_ask_nobody(kind: Kind) {
    // Nobody listens there, and nobody is asked.
    let here = || kind.builder(&["127.0.0.1:1".to_owned()]);
    let at = |address: &str| match kind {
        Kind::Etcd => DistributedLock::builder().etcd([address]),
        Kind::ZooKeeper => DistributedLock::builder().zookeeper(address),
    };
    let wrong: &[&str] = match kind {
        Kind::Etcd => {
            &["", "a:1", "redis://a:1", "http://", "http://a", "http://a:x", "http://u@a:1", "http://a:1/x"]
        }
        Kind::ZooKeeper => &["", ",", "a:x", "a:0", "a:1//x", "a:1/.."],
    };
    for address in wrong {
        let error = refused(at(address));
        assert!(matches!(error, ConfigError::BadEndpoint { .. }), "{address:?}: {error}");
    }
    assert!(matches!(refused(here().mode(Mode::Classic)), ConfigError::NotForBackend { .. }));
    assert!(matches!(refused(here().ttl(Duration::ZERO)), ConfigError::Ttl(_)));
    assert!(matches!(refused(here().patience(Duration::ZERO)), ConfigError::Patience(_)));
    if kind == Kind::Etcd {
        let error = refused(at("http://root:secret@a"));
        assert!(!error.to_string().contains("secret"), "{error}");
        let plain = at("http://a:1").tls_authority("x");
        assert!(matches!(refused(plain), ConfigError::BadEndpoint { .. }));
    }

    let locks = here().build().expect("a lock");
    let empty = locks.try_acquire("").await.expect_err("a mistake");
    assert_eq!(empty, AcquireError::Config(ConfigError::EmptyResource));
    let zero = locks.on(NAME).ttl(Duration::ZERO).try_acquire().await.expect_err("a mistake");
    assert_eq!(zero, AcquireError::Config(ConfigError::Ttl(Duration::ZERO)));
    assert!(matches!(locks.init(0).await, Err(ConfigError::NotForBackend { .. })));
    assert_eq!(locks.readmit().await, redfence::lock::Readmitted::NotNeeded);
    assert_eq!((locks.quorum().nodes(), locks.addresses().len()), (1, 1));
    let capabilities = locks.capabilities();
    assert!(capabilities.fair && capabilities.native_token && capabilities.fixed_ttl);
}
