//! Addresses of services, read before anything is asked.

use crate::lock::error::ConfigError;
use crate::lock::options::masked;
use crate::proto::tally::MAX_NODES;

/// How the addresses of one service are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) backend: &'static str,
    pub(crate) expected: &'static str,
}

impl Form {
    /// The error that an address is.
    pub(crate) fn bad(self, address: &str, reason: impl Into<String>) -> ConfigError {
        let (backend, expected) = (self.backend, self.expected);
        ConfigError::BadEndpoint { backend, address: masked(address), reason: reason.into(), expected }
    }

    /// `host:port`, where `whole` is what the user wrote. The port may be missing if there is a usual one.
    pub(crate) fn host_and_port(
        self,
        whole: &str,
        text: &str,
        usual: Option<u16>,
    ) -> Result<String, ConfigError> {
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address without a port stand within its brackets.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        if host.is_empty() {
            return Err(self.bad(whole, "no host"));
        }
        if host.contains(|c: char| c.is_whitespace() || "/?#@".contains(c)) {
            return Err(self.bad(whole, "not a host name"));
        }
        let port = match (port, usual) {
            (Some(port), _) => port.parse::<u16>().ok().filter(|port| *port > 0),
            (None, usual) => usual,
        };
        match port {
            Some(port) => Ok(format!("{host}:{port}")),
            None => Err(self.bad(whole, "no port")),
        }
    }

    /// No more than there are places in a report, and none twice.
    pub(crate) fn distinct(addresses: &[String]) -> Result<(), ConfigError> {
        if addresses.len() > MAX_NODES {
            return Err(ConfigError::TooManyNodes { given: addresses.len(), most: MAX_NODES });
        }
        for (index, address) in addresses.iter().enumerate() {
            if let Some(first) = addresses[..index].iter().position(|before| before == address) {
                let (first, second) = (first + 1, index + 1);
                return Err(ConfigError::DuplicateNode { address: address.clone(), first, second });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { backend: "test", expected: "host:port" };

    #[test]
    fn a_host_and_a_port_or_an_error_that_shows_no_password() {
        let read = |text, usual| FORM.host_and_port(text, text, usual);
        assert_eq!(read("a:1", None).unwrap(), "a:1");
        assert_eq!(read("a", Some(2181)).unwrap(), "a:2181");
        assert_eq!(read("[::1]:5", None).unwrap(), "[::1]:5");
        assert_eq!(read("[::1]", Some(7)).unwrap(), "[::1]:7");
        for wrong in ["", ":1", "a", "a:", "a:x", "a:0", "a:70000", "a b:1", "a/b:1", "u:p@a:1"] {
            let error = read(wrong, None).unwrap_err();
            assert!(matches!(error, ConfigError::BadEndpoint { .. }), "{wrong:?}");
            assert!(!error.to_string().contains("u:p"), "{error}");
        }
    }
}
