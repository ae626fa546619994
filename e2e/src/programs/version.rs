//! Versions, as programs print them.

use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl Version {
    pub(super) fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// Asks a program for its version.
pub(super) fn of(program: &Path, args: &[&str]) -> Option<Version> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    first_in(&String::from_utf8_lossy(&output.stdout)).or_else(|| first_in(&String::from_utf8_lossy(&output.stderr)))
}

/// The first `1.2` or `1.2.3` in a text, whatever stands around it.
fn first_in(text: &str) -> Option<Version> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut parts = word.split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some(Version { major, minor }),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_as_programs_print_them() {
        for (text, major, minor) in [
            ("etcd Version: 3.7.0\nGit SHA: 5", 3, 7),
            ("Kubernetes v1.37.2", 1, 37),
            ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", 1, 32),
            ("v4.3.2", 4, 3),
            ("envoy  version: 4a9b1/1.40.0/Clean/RELEASE/BoringSSL", 1, 40),
        ] {
            assert_eq!(first_in(text), Some(Version { major, minor }), "{text}");
        }
        assert_eq!(first_in("no version, not 1 of them"), None);
    }
}
